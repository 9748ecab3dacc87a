"""What a rank is told to run, and what it answers.

Made in the kernel, read on engines (and back). Plain pickle carries both. Must not know torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpulayer_nb.plan.topology import RankPlace, Topology
from gpulayer_nb.records.fit_names import FitNames
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.records.record import RankFailed


@dataclass(frozen=True, kw_only=True)
class GroupSpec:
    """One incarnation of a process group. A rank whose group has this key already keeps it."""

    key: str
    backend: str
    master_addr: str
    master_port: int
    timeout_seconds: float
    interface: str | None = None  # network interface for gloo and NCCL; None leaves the choice to them
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One rank's part of a run.

    `mode` is "ranks" (run the cell), "train" (run the cell, then fit what it made), or one of "fit", "validate", "test" and
    "predict" (with the shipment's values, named by `names`). `shipment` is a pickled `shipping.Shipment`, or None with
    `shipment_path` naming the file that holds it. `blobs` is where the shipment's big buffers lie on the rank's machine,
    `blob_folder` where results may leave theirs for the kernel ("": in the message). `folder` is the run's folder if the rank
    sees it, "" if its machine makes one of its own. `modules` is the archive of the user's own modules, `cwd` the notebook's
    folder; both "" where ranks were started in it.
    """

    run_id: str
    mode: str
    topology: Topology
    place: RankPlace
    group: GroupSpec
    accelerator: str
    source: str = ""
    cell: int = 0  # the notebook's execution count of the cell
    shipment: bytes | None = None
    shipment_path: str | None = None
    blobs: str = ""
    blob_folder: str = ""
    modules: str = ""
    cwd: str = ""
    folder: str = ""
    options: FitOptions = field(default_factory=FitOptions)
    names: FitNames = field(default_factory=FitNames)
    parts: frozenset[str] | None = None  # optional parts of the fit that the cell speaks of; None: all that are there
    collect: bool = False  # send the last expression's value back


@dataclass(frozen=True, kw_only=True)
class RankResult:
    """A rank's answer. `value` and `model` are pickled `shipping.Shipment`s; `model_in_place` says that it is a state_dict."""

    rank: int
    state: str  # "finished", "stopped" or "failed"
    failure: RankFailed | None = None
    value_text: str | None = None
    value: bytes | None = None
    value_error: str | None = None
    model: bytes | None = None
    model_in_place: bool = True
    callbacks: bytes | None = None  # pickled: the plain attributes of each callback that was given
    metrics: dict[str, float] = field(default_factory=dict)
    global_step: int = 0
    called_fit: bool = False
    has_names: bool = False  # the shipment was unpacked whole
    has_group: bool = True  # False after a failure, or if the cell has destroyed its process group
