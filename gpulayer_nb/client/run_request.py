"""One wish to run something on ranks, as the magics and the Trainer put it. Plain data, made and read in the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.records.fit_names import FitNames
from gpulayer_nb.records.fit_options import FitOptions


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """`mode` as in RunSpec. `values` are what a mode without a cell works on; `timeout_seconds` ends a longer run."""

    mode: str
    topology: Topology
    accelerator: str = "auto"
    target: str = "local"
    source: str = ""  # as typed, line 1 is the notebook's line 1
    python: str = ""  # the same as plain Python, for the search for names
    cell: int = 0
    options: FitOptions = field(default_factory=FitOptions)
    names: FitNames = field(default_factory=FitNames)
    values: Mapping[str, Any] = field(default_factory=dict)
    only_ranks: tuple[int, ...] | None = None
    collect: bool = False
    sync: bool = True
    timeout_seconds: float | None = None
    group_timeout_seconds: float | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    root: Path | None = None
    detach: bool = False  # the run goes on without this process
