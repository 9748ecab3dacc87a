"""A model that says itself how it is trained: the user subclasses `Module`.

Runs anywhere: it is an ordinary `torch.nn.Module`, the same for one device and for many. While a fit is on, the fit
attaches itself; before and after there is no trace of it, so a Module can be pickled and copied at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gpulayer_nb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpulayer_nb.train.running_fit import RunningFit

_ATTACHED = "_gpulayer_fit"


class Module(nn.Module):
    """Subclass it, define `training_step` and `configure_optimizers`; all else is optional."""

    _gpulayer_fit: RunningFit | None = None

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        """Return the loss of one batch: a tensor of one number, or a dict with it under "loss"."""
        raise UsageError(f"{type(self).__name__} has no training_step(batch, batch_idx). Define it and return the loss.")

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        """Log what is to be known about one batch of the validation loader."""
        raise UsageError(f"{type(self).__name__} has no validation_step(batch, batch_idx). Define it, or give no val_loader.")

    def test_step(self, batch: Any, batch_idx: int) -> Any:
        """Log what is to be known about one batch of the test loader."""
        raise UsageError(f"{type(self).__name__} has no test_step(batch, batch_idx). Define it to use trainer.test.")

    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        """The prediction for one batch: by default `self(batch)`, or `self(inputs)` of an (inputs, target) pair."""
        return self(batch[0] if isinstance(batch, (list, tuple)) and len(batch) == 2 else batch)

    def configure_optimizers(self) -> Any:
        """Return an optimizer, a list of them, two lists (optimizers, schedulers), or a dict with "lr_scheduler"."""
        raise UsageError(
            f"{type(self).__name__} has no configure_optimizers(). Define it, for example "
            "`return torch.optim.SGD(self.parameters(), lr=0.1)`."
        )

    def log(
        self,
        name: str,
        value: float | Tensor,
        *,
        on_step: bool | None = None,
        on_epoch: bool | None = None,
        prog_bar: bool = False,
        batch_size: int | None = None,
    ) -> None:
        """Record a number: its mean over ranks for every step, and its mean over samples for the epoch.

        Outside a fit it does nothing, so a step can be tried by hand.

        Args:
            on_step: False keeps the name out of the step series.
            on_epoch: False keeps the name out of the epoch means.
            prog_bar: show the name beside the progress bar.
            batch_size: samples that the value stands for; by default those of the batch in hand.
        """
        fit = self._gpulayer_fit
        if fit is not None:
            fit.metric_log.add(name, value, batch_size, on_step, on_epoch, prog_bar)

    def log_dict(
        self,
        values: Mapping[str, float | Tensor],
        *,
        on_step: bool | None = None,
        on_epoch: bool | None = None,
        prog_bar: bool = False,
        batch_size: int | None = None,
    ) -> None:
        """`log` for several names at once."""
        for name, value in values.items():
            self.log(name, value, on_step=on_step, on_epoch=on_epoch, prog_bar=prog_bar, batch_size=batch_size)

    @property
    def trainer(self) -> RunningFit:
        """The fit that is on."""
        fit = self._gpulayer_fit
        if fit is None:
            raise UsageError(f"{type(self).__name__}.trainer is there only while a fit is on.")
        return fit

    @property
    def current_epoch(self) -> int:
        return 0 if self._gpulayer_fit is None else self._gpulayer_fit.current_epoch

    @property
    def global_step(self) -> int:
        return 0 if self._gpulayer_fit is None else self._gpulayer_fit.global_step

    @property
    def global_rank(self) -> int:
        return 0 if self._gpulayer_fit is None else self._gpulayer_fit.global_rank

    @property
    def local_rank(self) -> int:
        return 0 if self._gpulayer_fit is None else self._gpulayer_fit.local_rank

    @property
    def device(self) -> torch.device:
        """The device of the parameters (cpu if there are none)."""
        return next((p.device for p in self.parameters()), torch.device("cpu"))

    def print(self, *values: Any, **options: Any) -> None:
        """`print` on global rank 0 only."""
        if self.global_rank == 0:
            print(*values, **options)  # it is what the user asked for

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != _ATTACHED}

    # The hooks do nothing here; the loop calls only those that a subclass defines.
    def setup(self, stage: str) -> None: ...
    def teardown(self, stage: str) -> None: ...
    def on_fit_start(self) -> None: ...
    def on_fit_end(self) -> None: ...
    def on_train_start(self) -> None: ...
    def on_train_end(self) -> None: ...
    def on_train_epoch_start(self) -> None: ...
    def on_train_epoch_end(self) -> None: ...
    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None: ...
    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None: ...
    def on_before_zero_grad(self, optimizer: torch.optim.Optimizer) -> None: ...
    def on_before_backward(self, loss: torch.Tensor) -> None: ...
    def on_after_backward(self) -> None: ...
    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None: ...
    def on_validation_start(self) -> None: ...
    def on_validation_end(self) -> None: ...
    def on_validation_epoch_start(self) -> None: ...
    def on_validation_epoch_end(self) -> None: ...
    def on_validation_batch_start(self, batch: Any, batch_idx: int) -> None: ...
    def on_validation_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None: ...
    def on_test_start(self) -> None: ...
    def on_test_end(self) -> None: ...
    def on_test_epoch_start(self) -> None: ...
    def on_test_epoch_end(self) -> None: ...
    def on_test_batch_start(self, batch: Any, batch_idx: int) -> None: ...
    def on_test_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None: ...
    def on_predict_start(self) -> None: ...
    def on_predict_end(self) -> None: ...
    def on_predict_epoch_start(self) -> None: ...
    def on_predict_epoch_end(self) -> None: ...
    def on_predict_batch_start(self, batch: Any, batch_idx: int) -> None: ...
    def on_predict_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None: ...
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None: ...
    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None: ...
