"""The observations that ranks publish and views read.

Made on engines, read in the kernel, the Jupyter server and from `records.jsonl`. Owns their names, fields and JSON form.
Must not know how they travel.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

VERSION = 1  # of the JSON form; raise it when a field changes its meaning

RUN_STATES = ("starting", "running", "stopping", "finished", "stopped", "failed")
RANK_STATES = ("idle", "starting", "running", "waiting", "silent", "failed", "dead")


@dataclass(frozen=True, kw_only=True)
class Record:
    """One observation. `time` is seconds since the epoch on the machine that made it."""

    kind: ClassVar[str] = ""
    time: float = 0.0


@dataclass(frozen=True, kw_only=True)
class RunStarted(Record):
    """The run's plain description; the header line of every view is made from it."""

    kind: ClassVar[str] = "run_started"
    run_id: str
    mode: str  # "train", "ranks", "launch", "validate", "test" or "predict"
    num_nodes: int
    devices: int
    backend: str  # "gloo" or "nccl"
    accelerator: str  # "cpu", "cuda" or "mps"
    simulated: bool  # nodes are groups of engines on one machine
    workers: tuple[str, ...] = ()  # name of the worker of each rank, in rank order
    device_names: tuple[str, ...] = ()  # "cpu" or "cuda:1" of each rank, in rank order
    pids: tuple[int, ...] = ()  # process id of each rank's engine, in rank order


@dataclass(frozen=True, kw_only=True)
class FitStarted(Record):
    """What the fit will do, known once the loaders are divided. Published by rank 0.

    `batch_size` is the loader's, per rank (None if it has none); `batches_per_epoch` counts batches on one rank
    (None if unknown); `max_steps` is the number of optimizer steps of the whole run (None if unknown).
    `start_epoch`/`start_step` are above 0 after a resume.
    """

    kind: ClassVar[str] = "fit_started"
    max_epochs: int | None = None
    max_steps: int | None = None
    batches_per_epoch: int | None = None
    val_batches: int | None = None
    batch_size: int | None = None
    accumulate_grad_batches: int = 1
    train_samples: int | None = None
    val_samples: int | None = None
    start_epoch: int = 0
    start_step: int = 0
    prog_bar: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StepMetrics(Record):
    """Means over ranks of every value logged in consecutive training steps. Published by rank 0.

    `steps[i]` is a global_step (the first is 1), `epochs[i]` its 0-based epoch, `values[name][i]` the mean over the ranks
    that logged `name` in that step (None: no rank did), `ranks[name][i]` how many did; a name that every rank logged in
    every step is left out of `ranks`. NaN and infinity are values. `samples` counts the samples of these steps over all ranks.
    """

    kind: ClassVar[str] = "step_metrics"
    steps: tuple[int, ...]
    epochs: tuple[int, ...]
    values: dict[str, tuple[float | None, ...]]
    ranks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    samples: int = 0


@dataclass(frozen=True, kw_only=True)
class EpochMetrics(Record):
    """Means over all samples of all ranks in one pass over a loader. Published by rank 0.

    `split` is "train", "val", "test"; `samples` how many samples were counted, each once; `seconds` how long the pass took.
    """

    kind: ClassVar[str] = "epoch_metrics"
    split: str
    epoch: int
    global_step: int
    values: dict[str, float]
    samples: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Progress(Record):
    """Where the run is. Published by rank 0 at every flush and at the ends of epochs.

    `phase` is "train", "val", "test" or "predict"; `batch_index` is the last batch done (0-based) of `batches` (None if unknown).
    """

    kind: ClassVar[str] = "progress"
    phase: str
    epoch: int
    batch_index: int
    batches: int | None
    global_step: int
    samples_per_second: float | None = None  # summed over ranks, since the last Progress


@dataclass(frozen=True, kw_only=True)
class ProgBar(Record):
    """The metrics that the user wants to see first, all those known so far. Published by rank 0 when there are more."""

    kind: ClassVar[str] = "prog_bar"
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class NonFinite(Record):
    """A logged value was NaN or infinite: names the ranks and steps. Published by rank 0, once per flush and name."""

    kind: ClassVar[str] = "non_finite"
    name: str
    steps: tuple[int, ...]
    ranks: tuple[int, ...]  # ranks[i] is the first rank whose value was not finite at steps[i]


@dataclass(frozen=True, kw_only=True)
class CheckpointSaved(Record):
    kind: ClassVar[str] = "checkpoint_saved"
    path: str
    epoch: int
    global_step: int
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Notice(Record):
    """One sentence for the user that changes nothing in the run. `level` is "note" or "warning"."""

    kind: ClassVar[str] = "notice"
    text: str
    level: str = "note"
    rank: int | None = None


@dataclass(frozen=True, kw_only=True)
class RankStatus(Record):
    """What one rank is doing, about once a second. Published by every rank.

    `own_seconds` is what a training step took this rank alone, in the mean since its last status: batch and forward, without the
    exchange, in which the fast wait for the slow. `memory_bytes` is the resident size of the engine on cpu and the memory torch
    holds on its device on cuda.
    """

    kind: ClassVar[str] = "rank_status"
    rank: int
    state: str  # one of RANK_STATES
    global_step: int = 0
    samples_per_second: float | None = None
    memory_bytes: int | None = None
    own_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class RankOutput(Record):
    """Text that a rank wrote. Made in the kernel from the engine's stream messages. `stream` is "stdout" or "stderr"."""

    kind: ClassVar[str] = "rank_output"
    rank: int
    stream: str
    text: str


@dataclass(frozen=True, kw_only=True)
class RankFailed(Record):
    """A rank raised. Published by that rank before it leaves its collectives.

    `cell_line` is the line of the user's own cell nearest to the error (1-based) and `cell` that cell's execution count;
    `consequence` is true when the error is only the echo of another rank's (a broken connection, an interrupt).
    """

    kind: ClassVar[str] = "rank_failed"
    rank: int
    error_type: str
    message: str
    traceback: str = ""
    cell: int | None = None
    cell_line: int | None = None
    epoch: int | None = None
    batch_index: int | None = None
    global_step: int | None = None
    consequence: bool = False


@dataclass(frozen=True, kw_only=True)
class RankDone(Record):
    """A rank has left the run; all it wrote has been sent before. `state` is "finished", "stopped" or "failed"."""

    kind: ClassVar[str] = "rank_done"
    rank: int
    state: str


@dataclass(frozen=True, kw_only=True)
class EngineDied(Record):
    """An engine's process is gone. Published by its worker's supervisor. Exactly one of `signal`, `exit_code` is set."""

    kind: ClassVar[str] = "engine_died"
    worker: str
    slot: int
    pid: int
    signal: int | None = None
    exit_code: int | None = None


@dataclass(frozen=True, kw_only=True)
class RunEnded(Record):
    """The run is over. Made in the kernel, last record of the run. `state` is "finished", "stopped" or "failed"."""

    kind: ClassVar[str] = "run_ended"
    state: str
    message: str = ""


KINDS: dict[str, type[Record]] = {
    cls.kind: cls
    for cls in (
        RunStarted, FitStarted, StepMetrics, EpochMetrics, Progress, ProgBar, NonFinite, CheckpointSaved, Notice,
        RankStatus, RankOutput, RankFailed, RankDone, EngineDied, RunEnded,
    )
}  # fmt: skip


def encode(record: Record) -> dict[str, Any]:
    """The JSON form. Numbers that JSON has no word for become the strings "nan", "inf", "-inf"."""
    return {"v": VERSION, "kind": record.kind, **{k: _plain(v) for k, v in asdict(record).items()}}


def decode(data: dict[str, Any]) -> Record | None:
    """The record, or None for a kind or version that this release does not know; unknown fields are ignored."""
    cls = KINDS.get(data.get("kind", ""))
    if cls is None or data.get("v") != VERSION:
        return None
    known = {f.name for f in fields(cls)}
    return cls(**{k: _rich(v, k) for k, v in data.items() if k in known})


_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_TEXT_FIELDS = {"text", "message", "traceback", "name", "path", "error_type", "worker", "stream"}  # "nan" is a word here


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def _rich(value: Any, name: str) -> Any:
    if isinstance(value, str) and name not in _TEXT_FIELDS:
        return _NON_FINITE.get(value, value)
    if isinstance(value, dict):
        return {k: _rich(v, "") for k, v in value.items()}
    if isinstance(value, list):
        return tuple(_rich(v, "") for v in value)
    return value
