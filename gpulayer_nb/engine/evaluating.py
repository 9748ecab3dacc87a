"""Validates, tests or predicts with a model that was sent by name.

Runs in each rank's process. Owns the look-up; the pass over the data is the library's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from gpulayer_nb.engine.fitting import DATA_MODULE, LOGGERS
from gpulayer_nb.errors import UsageError
from gpulayer_nb.records.fit_names import FitNames
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.train.context import RankContext
from gpulayer_nb.train.evaluate import evaluate
from gpulayer_nb.train.fit_result import FitResult
from gpulayer_nb.train.predict import predict

SPLITS = {"validate": "val", "test": "test"}


def evaluate_names(
    mode: str, values: Mapping[str, Any], names: FitNames, options: FitOptions, context: RankContext
) -> tuple[FitResult, list[Any] | None]:
    """Runs `mode` ("validate", "test" or "predict") on the sent model and loader.

    Returns:
        How it ended, and rank 0's predictions ("predict"; an empty list on other ranks) or None.

    Raises:
        UsageError: the model is no torch module.
    """
    model = values.get(names.model)
    if not isinstance(model, nn.Module):
        raise UsageError(f"the model is a {type(model).__name__}; it has to be a torch.nn.Module.")
    arguments: dict[str, Any] = {
        "options": options,
        "place": context.place,
        "world_size": context.topology.world_size,
        "devices_per_node": context.topology.devices,
        "device": context.device,
        "report": context.report,
        "should_stop": context.should_stop,
        "callbacks": tuple(values.get(names.callbacks) or ()),
        "loggers": tuple(values.get(LOGGERS) or ()),
        "datamodule": values.get(DATA_MODULE),
        "checkpoint_dir": context.checkpoint_dir,
        "log_dir": context.log_dir,
        "position": context.position,
    }
    loader = values.get(names.val_loader)
    if mode == "predict":
        predictions = predict(model, loader, **arguments)
        return FitResult(state="stopped" if context.should_stop() else "finished"), predictions
    return evaluate(model, loader, split=SPLITS[mode], **arguments), None
