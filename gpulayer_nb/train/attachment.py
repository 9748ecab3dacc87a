"""Puts the fit that is on into a module and takes it out again.

Runs in a rank. Owns the two shapes a module can have: ours, and a LightningModule, which is accepted as it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.module import Module
from gpulayer_nb.train.running_fit import RunningFit


def check_module(module: Any) -> None:
    """Refuse what the loop cannot train.

    Raises:
        UsageError: it is no Module, and has no training_step and configure_optimizers of its own.
    """
    if isinstance(module, Module):
        return
    if isinstance(module, nn.Module) and hasattr(module, "training_step") and hasattr(module, "configure_optimizers"):
        _check_foreign(module)
        return
    hint = " Give loss_fn and optimizer with it." if isinstance(module, nn.Module) else ""
    raise UsageError(
        f"a {type(module).__name__} cannot be fitted as it is: it is no gpulayer_nb.Module with training_step and "
        f"configure_optimizers.{hint}"
    )


def _check_foreign(module: Any) -> None:
    """A LightningModule may change the loop itself; what this loop would pass over in silence is refused."""
    name = type(module).__name__
    instead = "Return the loss from training_step, or give the module to Lightning's own Trainer in a `%%ranks` cell."
    if getattr(module, "automatic_optimization", True) is False:
        raise UsageError(f"{name} optimizes by hand (automatic_optimization=False), which is not supported here. {instead}")
    own = [method for method in _LOOP_METHODS if _is_users(type(module), method)]
    if own:
        raise UsageError(f"{name} changes the loop itself by {', '.join(own)}, which is not supported here. {instead}")


_LOOP_METHODS = (
    "backward", "optimizer_step", "optimizer_zero_grad", "lr_scheduler_step", "configure_gradient_clipping",
    "transfer_batch_to_device", "on_before_batch_transfer", "on_after_batch_transfer", "configure_sharded_model",
)  # fmt: skip


def _is_users(kind: type, method: str) -> bool:
    """Whether the user's own class defines the method, not Lightning's."""
    home = next((base for base in kind.__mro__ if method in vars(base)), None)
    return home is not None and home.__module__.split(".")[0] not in ("lightning", "pytorch_lightning", "torch", "builtins")


def step_of(module: Any, name: str) -> Callable[[Any, int], Any]:
    """`module.training_step` and its like, callable as (batch, batch_idx); a step that takes the batch alone will do."""
    step: Callable[..., Any] = getattr(module, name)
    takes = [p.kind for p in inspect.signature(step).parameters.values()]
    positional = sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in takes)
    if positional >= 2 or inspect.Parameter.VAR_POSITIONAL in takes:
        return step
    return lambda batch, batch_idx: step(batch)


@contextmanager
def attached(module: Any, running: RunningFit) -> Iterator[None]:
    """While the context is on, `module.log` and `module.trainer` belong to the fit; afterwards no trace is left."""
    if isinstance(module, Module):
        module.__dict__["_gpulayer_fit"] = running
        try:
            yield
        finally:
            module.__dict__.pop("_gpulayer_fit", None)
        return
    if not hasattr(module, "training_step"):  # a plain model that predicts: there is nothing to attach
        yield
        return
    own_trainer = module.__dict__.get("_trainer")
    module.__dict__["_trainer"] = running  # what LightningModule.trainer returns
    module.__dict__["log"] = _Log(running)
    module.__dict__["log_dict"] = _LogDict(running)
    try:
        yield
    finally:
        module.__dict__["_trainer"] = own_trainer
        del module.__dict__["log"], module.__dict__["log_dict"]


class _Log:
    """`LightningModule.log` for the time of a fit; what Lightning needs for its own averaging is accepted and not needed."""

    def __init__(self, running: RunningFit) -> None:
        self._add = running.metric_log.add

    def __call__(
        self, name: str, value: Any, prog_bar: bool = False, logger: bool | None = None, on_step: bool | None = None,
        on_epoch: bool | None = None, *_: Any, batch_size: int | None = None, **__: Any,
    ) -> None:  # fmt: skip
        self._add(name, value, batch_size, on_step, on_epoch, prog_bar)


class _LogDict(_Log):
    def __call__(self, dictionary: Any, *arguments: Any, **options: Any) -> None:  # type: ignore[override]  # takes many names
        for name, value in dictionary.items():
            super().__call__(name, value, *arguments, **options)
