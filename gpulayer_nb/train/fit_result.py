"""How a fit, a validation or a test ended. The same on every rank."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class FitResult:
    """`state` is "finished" or "stopped" (the user wanted it); `metrics` holds the last epoch means of every split."""

    state: str
    metrics: dict[str, float] = field(default_factory=dict)
    global_step: int = 0
    epochs_done: int = 0
    checkpoints: tuple[str, ...] = ()  # paths on global rank 0; empty on the others
    callbacks: tuple[dict[str, Any], ...] = ()  # plain attributes of those that were given, on global rank 0; empty on the others
