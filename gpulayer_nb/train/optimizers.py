"""Reads what `configure_optimizers` returned, in any of its usual forms.

Runs in a rank. Owns those forms and when a scheduler steps. Must not know the loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from gpulayer_nb.errors import UsageError

FORMS = (
    "return an optimizer, a list of optimizers, ([optimizers], [schedulers]), "
    'or {"optimizer": …, "lr_scheduler": scheduler or '
    '{"scheduler": …, "interval": "epoch" or "step", "frequency": 1, "monitor": name}}'
)


@dataclass(frozen=True)
class ScheduleRule:
    """A scheduler and when it steps: after every `frequency` epochs or optimizer steps."""

    scheduler: Any
    interval: str = "epoch"
    frequency: int = 1
    monitor: str | None = None  # the metric that ReduceLROnPlateau looks at

    @property
    def needs_metric(self) -> bool:
        return isinstance(self.scheduler, ReduceLROnPlateau)

    def step(self, metrics: Mapping[str, float]) -> None:
        """Step the scheduler; one that looks at a metric is left alone while the metric has no value yet.

        Raises:
            UsageError: it looks at a metric that nobody logs.
        """
        if not self.needs_metric:
            self.scheduler.step()
            return
        name = self.monitor or ("val_loss" if "val_loss" in metrics else "loss")
        if name not in metrics:
            raise UsageError(
                f"ReduceLROnPlateau looks at {name!r}, which has not been logged. Logged so far: "
                f"{', '.join(sorted(metrics)) or 'nothing'}. Name one of them as its monitor."
            )
        self.scheduler.step(metrics[name])


@dataclass(frozen=True)
class Optimization:
    optimizers: tuple[Optimizer, ...]
    rules: tuple[ScheduleRule, ...]

    @classmethod
    def read(cls, configured: Any) -> Optimization:
        """The optimizers and schedule rules of a `configure_optimizers` result.

        Raises:
            UsageError: the result has none of the known forms.
        """
        optimizers: list[Optimizer] = []
        rules: list[ScheduleRule] = []
        if _is_pair_of_lists(configured):
            optimizers = [_optimizer(part) for part in configured[0]]
            rules = [_rule(part) for part in configured[1]]
        else:
            for part in configured if isinstance(configured, (list, tuple)) else [configured]:
                if isinstance(part, Mapping):
                    optimizers.append(_optimizer(part.get("optimizer")))
                    if part.get("lr_scheduler") is not None:
                        rules.append(_rule(part["lr_scheduler"], part.get("monitor")))
                else:
                    optimizers.append(_optimizer(part))
        if not optimizers:
            raise UsageError(f"configure_optimizers gave no optimizer; {FORMS}.")
        return cls(tuple(optimizers), tuple(rules))

    def check(self, module: nn.Module) -> None:
        """Refuse an optimizer that holds nothing of the module: training it would change nothing; and one that needs a closure.

        Raises:
            UsageError: as said; the first is typical after the model was made anew and the optimizer was not.
        """
        own = {id(parameter) for parameter in module.parameters()}
        for optimizer in self.optimizers:
            if _needs_closure(optimizer):
                raise UsageError(
                    f"{type(optimizer).__name__} evaluates the loss several times in a step (a closure), which is not supported. "
                    "Next: another optimizer, or a loop of your own in `%%ranks`."
                )
            held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            if held and not any(id(parameter) in own for parameter in held):
                raise UsageError(
                    f"none of the {len(held)} parameters in the {type(optimizer).__name__} optimizer belong to the model. "
                    "Was the model made anew after it? Make the optimizer in the same cell: optimizer = …(model.parameters(), …)."
                )

    def parameters(self, module: nn.Module) -> list[nn.Parameter]:
        """All trainable parameters of the module and of the optimizers, each once."""
        found = {id(parameter): parameter for parameter in module.parameters() if parameter.requires_grad}
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                found.update((id(parameter), parameter) for parameter in group["params"])
        return list(found.values())

    def move_state(self) -> None:
        """Bring optimizer state to its parameter's device, for an optimizer that was used before the model moved."""
        for optimizer in self.optimizers:
            for parameter, state in optimizer.state.items():
                for name, value in state.items():
                    if isinstance(value, Tensor) and value.dim() and value.device != parameter.device:
                        state[name] = value.to(parameter.device)

    def learning_rates(self) -> dict[str, float]:
        """`lr-SGD`, or `lr-SGD-0`, `lr-SGD-1` … for several groups or optimizers."""
        rates = [
            (type(optimizer).__name__, float(group["lr"])) for optimizer in self.optimizers for group in optimizer.param_groups
        ]
        if len(rates) == 1:
            return {f"lr-{rates[0][0]}": rates[0][1]}
        return {f"lr-{name}-{index}": rate for index, (name, rate) in enumerate(rates)}


def _needs_closure(optimizer: Optimizer) -> bool:
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def _is_pair_of_lists(configured: Any) -> bool:
    return (
        isinstance(configured, (list, tuple))
        and len(configured) == 2
        and all(isinstance(part, (list, tuple)) for part in configured)
    )


def _optimizer(part: Any) -> Optimizer:
    if isinstance(part, Optimizer):
        return part
    raise UsageError(f"an optimizer is a {type(part).__name__}, not a torch.optim.Optimizer; {FORMS}.")


def _rule(part: Any, monitor: str | None = None) -> ScheduleRule:
    if not isinstance(part, Mapping):
        part = {"scheduler": part}
    scheduler = part.get("scheduler")
    if not callable(getattr(scheduler, "step", None)):
        raise UsageError(f"a scheduler is a {type(scheduler).__name__}, which has no step(); {FORMS}.")
    rule = ScheduleRule(
        scheduler, part.get("interval") or "epoch", int(part.get("frequency") or 1), part.get("monitor") or monitor
    )
    if rule.interval not in ("epoch", "step"):
        raise UsageError(f'a scheduler\'s interval is {rule.interval!r}; it is "epoch" or "step".')
    if rule.frequency < 1:
        raise UsageError(f"a scheduler's frequency is {rule.frequency}; it is at least 1.")
    return rule
