"""Who this process is in the run that is on: read by `Trainer.fit` when user code calls it on a rank.

Set by the engine around a cell, or made from torchrun's variables. Owns nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gpulayer_nb.plan.topology import RankPlace, Topology
from gpulayer_nb.records.record import Record
from gpulayer_nb.train.position import FitPosition


@dataclass
class RankContext:
    """One rank's surroundings. `fits` collects what `Trainer.fit` did here: (model, FitResult)."""

    topology: Topology
    place: RankPlace
    device: torch.device
    report: Callable[[Record], None]
    should_stop: Callable[[], bool]
    position: FitPosition
    checkpoint_dir: Path | None
    log_dir: Path | None = None
    fits: list[tuple[Any, Any]] = field(default_factory=list)


_active: list[RankContext] = []  # one rank a process, so one context at a time; a stack for nested use in tests


def current() -> RankContext | None:
    return _active[-1] if _active else None


@contextlib.contextmanager
def active(context: RankContext) -> Iterator[RankContext]:
    _active.append(context)
    try:
        yield context
    finally:
        _active.remove(context)
