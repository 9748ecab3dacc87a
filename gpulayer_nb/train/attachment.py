"""Puts the fit that is on into a module and takes it out again.

Runs in a rank. Owns the two shapes a module can have: ours, and a LightningModule, which is accepted as it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.callback import defines
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
    own = [method for method in _LOOP_METHODS if defines(module, method)]
    if own:
        raise UsageError(f"{name} changes the loop itself by {', '.join(own)}, which is not supported here. {instead}")
    for method, advice in _NOT_CALLED.items():
        if defines(module, method):
            raise UsageError(f"{name} has {method}(), which this Trainer does not call. Next: {advice}.")


_LOOP_METHODS = (
    "backward", "optimizer_step", "optimizer_zero_grad", "lr_scheduler_step", "configure_gradient_clipping",
    "transfer_batch_to_device", "on_before_batch_transfer", "on_after_batch_transfer", "configure_sharded_model",
    "on_validation_model_eval", "on_validation_model_train", "on_validation_model_zero_grad", "on_test_model_eval",
    "on_test_model_train", "on_predict_model_eval", "on_predict_model_train",
)  # fmt: skip
_NOT_CALLED = {
    "configure_model": "make the layers in __init__",
    "configure_callbacks": "give the callbacks to the Trainer, `callbacks=[…]`",
    "prepare_data": "put it into a data module",
}


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
    stand_ins = {
        "log": _Log(running),
        "log_dict": _LogDict(running),
        "optimizers": lambda use_pl_optimizer=True: _one_or_all(running.optimizers),
        "lr_schedulers": lambda: _one_or_all(running.lr_schedulers) if running.lr_schedulers else None,
        "all_gather": running.gather_stacked,
    }
    module.__dict__.update(stand_ins, _trainer=running)  # `_trainer` is what LightningModule.trainer returns
    try:
        yield
    finally:
        module.__dict__["_trainer"] = own_trainer
        for name in stand_ins:
            module.__dict__.pop(name, None)


def _one_or_all(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else parts


class _Log:
    """`LightningModule.log` for the time of a fit; what Lightning needs for its own averaging is accepted and not needed."""

    def __init__(self, running: RunningFit) -> None:
        self._add = running.metric_log.add
        self._is_first = running.is_global_zero

    def __call__(
        self, name: str, value: Any, prog_bar: bool = False, logger: bool | None = None, on_step: bool | None = None,
        on_epoch: bool | None = None, reduce_fx: Any = "mean", *_: Any, batch_size: int | None = None,
        rank_zero_only: bool = False, **__: Any,
    ) -> None:  # fmt: skip
        if reduce_fx not in ("mean", "avg", torch.mean):
            raise UsageError(
                f"log({name!r}, …, reduce_fx={getattr(reduce_fx, '__name__', reduce_fx)!r}): only means are kept here. Next: "
                "keep the values, and log what you want of self.trainer.gather(…) in on_validation_epoch_end."
            )
        if rank_zero_only and not self._is_first:
            return
        self._add(name, value, batch_size, on_step, on_epoch, prog_bar)


class _LogDict(_Log):
    def __call__(self, dictionary: Any, *arguments: Any, **options: Any) -> None:  # type: ignore[override]  # takes many names
        for name, value in dictionary.items():
            super().__call__(name, value, *arguments, **options)
