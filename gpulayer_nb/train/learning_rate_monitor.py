"""Logs the learning rate that each step used. Runs on every rank; the rates are equal there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpulayer_nb.train.callback import Callback

if TYPE_CHECKING:
    from gpulayer_nb.train.running_fit import RunningFit


class LearningRateMonitor(Callback):
    """Records `lr-<optimizer>` for every step, as a step series without an epoch mean."""

    def on_train_batch_start(self, trainer: RunningFit, module: Any, batch: Any, batch_idx: int) -> None:
        if trainer.optimization is not None:
            for name, rate in trainer.optimization.learning_rates().items():
                trainer.metric_log.add(name, rate, on_epoch=False)
