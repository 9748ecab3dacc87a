"""Which of a cell's names are the model, the loaders and the parts of a fit. Made in the kernel, read on engines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FitNames:
    """The names that `%%gpulayer` looks up after the cell has run."""

    model: str = "model"
    train_loader: str = "train_loader"
    val_loader: str = "val_loader"
    loss_fn: str = "loss_fn"
    optimizer: str = "optimizer"
    scheduler: str = "scheduler"
    metrics: str = "metrics"
    callbacks: str = "callbacks"

    @property
    def optional(self) -> tuple[str, ...]:
        """Parts that a fit can do without."""
        return self.val_loader, self.scheduler, self.metrics, self.callbacks
