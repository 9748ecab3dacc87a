"""Metrics that keep their own state, such as torchmetrics': computed once an epoch, over all samples of all ranks.

Runs in a rank. Knows them by their `update`, `compute` and `reset`; they exchange their state between ranks themselves.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.group import Group
from gpulayer_nb.train.metric_log import MetricLog


def take_objects(log: MetricLog, module: nn.Module, group: Group) -> dict[str, float]:
    """The epoch's value of every logged metric object, the same on all ranks; the objects start anew.

    A rank without a batch has not logged its own one; it is found in the module then, as computing needs every rank.

    Raises:
        UsageError: on every rank, when one lacks an object that is no part of the module.
    """
    own, log.objects = log.objects, {}
    if group.sum([float(len(own))])[0] == 0:
        return {}
    parts = dict(module.named_modules())
    paths = {id(part): path for path, part in parts.items()}
    seen = group.gather({name: paths.get(id(metric)) for name, metric in own.items()})
    values: dict[str, float] = {}
    for name in sorted({name for logged in seen for name in logged}):
        path = next((logged[name] for logged in seen if logged.get(name) is not None), None)
        if path is None and not all(name in logged for logged in seen):
            raise UsageError(
                f"the metric object logged as {name!r} is known to some ranks only. "
                "Make it an attribute of the module in __init__."
            )
        metric: Any = own[name] if name in own else parts[path or ""]
        values[name] = float(metric.compute())
        metric.reset()
    return values
