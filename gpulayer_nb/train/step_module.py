"""Wraps a module so that DistributedDataParallel sees its `training_step` as the forward.

Runs in a rank. The user's module is a child of the wrapper and is not changed; when the wrapper goes, nothing is left.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.attachment import step_of
from gpulayer_nb.train.precision import Precision


class StepModule(nn.Module):
    """Its forward is the module's training step."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.__dict__["_step"] = step_of(module, "training_step")  # past nn.Module, which would look through it at every set

    def forward(self, batch: Any, batch_idx: int) -> Any:
        return self._step(batch, batch_idx)  # type: ignore[operator]  # torch types what it does not know as Tensor | Module


class MixedStepModule(StepModule):
    def __init__(self, module: nn.Module, precision: Precision) -> None:
        super().__init__(module)
        self.precision = precision

    def forward(self, batch: Any, batch_idx: int) -> Any:
        with self.precision.forward():
            return super().forward(batch, batch_idx)


def distribute(
    module: nn.Module, precision: Precision, world_size: int, *, find_unused_parameters: bool
) -> StepModule | DistributedDataParallel:
    """The callable that runs a training step; with several ranks its backward averages gradients over them.

    Raises:
        UsageError: several ranks, and no parameter to train.
    """
    step = MixedStepModule(module, precision) if precision.mixed else StepModule(module)
    if world_size == 1:
        return step
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise UsageError("the model has no parameter with requires_grad=True: there is nothing to train.")
    return DistributedDataParallel(step, find_unused_parameters=find_unused_parameters, gradient_as_bucket_view=True)


def loss_of(output: Any) -> Tensor:
    """The loss in a training step's result.

    Raises:
        UsageError: there is none.
    """
    loss = output.get("loss") if isinstance(output, dict) else output
    if isinstance(loss, Tensor):
        return loss
    if isinstance(output, dict):
        keys = ", ".join(map(repr, output)) or "(none)"
        raise UsageError(f'training_step returned a dict with the keys {keys}; it needs the loss, a tensor, under "loss".')
    found, hint = f"a {type(output).__name__}", "Do not turn the loss into a number before the return."
    if output is None:
        found, hint = "None", "Is a `return loss` missing?"
    raise UsageError(f"training_step returned {found}; it has to return the loss, a tensor. {hint}")


def explain_backward_error(loss: Tensor) -> UsageError | None:
    """What is wrong with a loss whose backward has failed, if it is the loss."""
    if loss.numel() != 1:
        return UsageError(
            f"the loss has the shape {tuple(loss.shape)}; it has to be one number for the batch, for example loss.mean()."
        )
    if not loss.requires_grad:
        return UsageError(
            "the loss depends on no trainable parameter, so there is nothing to train on. Was it detached, computed under "
            "no_grad, or from numbers (.item())? Or are all parameters frozen?"
        )
    return None


def unused_parameters_error(names: list[str]) -> UsageError:
    """Parameters without a gradient after a backward: the ranks could not agree on their gradients."""
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return UsageError(
        f"These parameters took no part in the loss: {shown}. With several ranks every parameter must, unless you allow it: "
        "use them, freeze them with requires_grad_(False), or set find_unused_parameters=True (--find-unused-parameters)."
    )
