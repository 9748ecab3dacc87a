"""Ends a fit when a metric no longer gets better. Runs on every rank and decides the same: epoch means are equal there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.callback import Callback

if TYPE_CHECKING:
    from gpulayer_nb.train.running_fit import RunningFit


class EarlyStopping(Callback):
    """Stop after `patience` epochs in a row without an improvement of `monitor` by more than `min_delta`.

    Args:
        mode: "min" if smaller is better, "max" if larger is.
        check_finite: stop at once when the metric is NaN or infinite.
    """

    def __init__(
        self, monitor: str, *, min_delta: float = 0.0, patience: int = 3, mode: str = "min", check_finite: bool = True
    ) -> None:
        check_mode(mode)
        self.monitor, self.min_delta, self.patience, self.mode = monitor, min_delta, patience, mode
        self.check_finite = check_finite
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.best_score: float | None = None
        self.wait_count = 0
        self.stopped_epoch: int | None = None  # the 0-based epoch after which it ended the fit

    def setup(self, trainer: RunningFit, module: Any, stage: str) -> None:
        if stage == "fit":  # a resumed one takes its own back in load_state_dict
            self._begin_anew()

    def on_train_epoch_end(self, trainer: RunningFit, module: Any) -> None:
        value = monitored(trainer, self.monitor, "EarlyStopping")
        if value is None:
            return
        if self.check_finite and not math.isfinite(value):
            self._stop(trainer)
        elif is_better(value, self.best_score, self.mode, self.min_delta):
            self.best_score, self.wait_count = value, 0
        else:
            self.wait_count += 1
            if self.wait_count >= self.patience:
                self._stop(trainer)

    def _stop(self, trainer: RunningFit) -> None:
        self.stopped_epoch = trainer.current_epoch
        trainer.should_stop = True

    def state_dict(self) -> dict[str, Any]:
        return {"best_score": self.best_score, "wait_count": self.wait_count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best_score, self.wait_count = state["best_score"], state["wait_count"]


def check_mode(mode: str) -> None:
    if mode not in ("min", "max"):
        raise UsageError(f'mode is {mode!r}; it is "min" (smaller is better) or "max".')


def is_better(value: float, best: float | None, mode: str, min_delta: float = 0.0) -> bool:
    """Whether `value` beats `best` by more than `min_delta`. NaN never does."""
    if math.isnan(value):
        return False
    if best is None:
        return True
    return value < best - min_delta if mode == "min" else value > best + min_delta


def monitored(trainer: RunningFit, name: str, who: str) -> float | None:
    """This epoch's mean of a metric, None when it is one that only some epochs have.

    Raises:
        UsageError: nobody logs it.
    """
    if name in trainer.epoch_metrics:
        return trainer.epoch_metrics[name]
    if name in trainer.callback_metrics or trainer.awaits_validation:
        return None
    raise UsageError(
        f"{who} looks at {name!r}, which has not been logged. Logged so far: "
        f"{', '.join(sorted(trainer.callback_metrics)) or 'nothing'}."
    )
