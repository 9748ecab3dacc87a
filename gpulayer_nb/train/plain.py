"""A plain model with its loss and optimizer, in the shape the loop trains.

Runs in a rank. Owns what one step of a plain model is. The user's model stays as it is: no attribute of it is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.module import Module

STEP_BY_BATCH = ("OneCycleLR", "CyclicLR")  # torch's documentation: to be stepped after every batch


class PlainTask(Module):
    """Trains `model` on batches (inputs, target) with `loss_fn(pred, target)`.

    Logs `loss` and each metric in training, `val_loss` and `val_<metric>` in validation (`test_…` in a test).

    Args:
        scheduler: a torch scheduler, stepped once an epoch (OneCycleLR and CyclicLR once a step), or a dict
            `{"scheduler": …, "interval": "step", "monitor": "val_loss"}`.
        metrics: name → `fn(pred, target)`, a number for the batch (its mean over samples).
    """

    def __init__(
        self,
        model: nn.Module,
        loss_fn: Callable[..., Tensor],
        optimizer: Any,
        scheduler: Any = None,
        metrics: Mapping[str, Callable[[Any, Any], Any]] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(model, nn.Module):
            raise UsageError(f"the model is a {type(model).__name__}; it has to be a torch.nn.Module.")
        if not callable(loss_fn):
            raise UsageError(f"loss_fn is a {type(loss_fn).__name__}; it has to be callable as loss_fn(pred, target).")
        self.model = model
        self.loss_fn = loss_fn
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.metrics = dict(metrics or {})
        for name, metric in self.metrics.items():
            if not callable(metric):
                raise UsageError(f"metrics[{name!r}] is a {type(metric).__name__}; it has to be a function fn(pred, target).")

    def forward(self, *inputs: Any) -> Any:
        return self.model(*inputs)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        inputs, target = pair(batch)
        pred = self.model(inputs)
        loss = self.loss_fn(pred, target)
        self.log("loss", loss)
        if self.metrics:
            self._log_metrics("", pred, target)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self._evaluate("val_", batch)

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self._evaluate("test_", batch)

    def configure_optimizers(self) -> Any:
        if self.scheduler is None:
            return self.optimizer
        if isinstance(self.scheduler, Mapping):
            return {"optimizer": self.optimizer, "lr_scheduler": dict(self.scheduler)}
        interval = "step" if type(self.scheduler).__name__ in STEP_BY_BATCH else "epoch"
        return {"optimizer": self.optimizer, "lr_scheduler": {"scheduler": self.scheduler, "interval": interval}}

    def _evaluate(self, prefix: str, batch: Any) -> None:
        inputs, target = pair(batch)
        pred = self.model(inputs)
        self.log(f"{prefix}loss", self.loss_fn(pred, target))
        self._log_metrics(prefix, pred, target)

    @torch.no_grad()
    def _log_metrics(self, prefix: str, pred: Any, target: Any) -> None:
        for name, metric in self.metrics.items():
            self.log(prefix + name, metric(pred, target))


def pair(batch: Any) -> tuple[Any, Any]:
    """The (inputs, target) of a batch.

    Raises:
        UsageError: the batch is something else.
    """
    if isinstance(batch, (list, tuple)) and len(batch) == 2:
        return batch[0], batch[1]
    parts = f" of {len(batch)} parts" if isinstance(batch, (list, tuple, dict)) else ""
    raise UsageError(
        f"A plain model is trained on batches (inputs, target), but the loader gave a {type(batch).__name__}{parts}. "
        "Let the data set return pairs, or subclass gpulayer_nb.Module and write training_step(batch, batch_idx)."
    )
