"""Fits what a cell has made: finds the model, the loaders and the parts by their names.

Runs in each rank's process. Owns the look-up and its refusals; the training is the library's.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.utils.data import DataLoader

from gpulayer_nb.errors import UsageError
from gpulayer_nb.records.fit_names import FitNames
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.train.context import RankContext
from gpulayer_nb.train.fit import fit
from gpulayer_nb.train.fit_result import FitResult
from gpulayer_nb.train.module import Module
from gpulayer_nb.train.plain import PlainTask

DATA_MODULE = "_gpulayer_data_module"  # names under which the Trainer ships what FitNames has no name for
LOGGERS = "_gpulayer_loggers"


def fit_names(
    namespace: Mapping[str, Any], names: FitNames, parts: frozenset[str] | None, options: FitOptions, context: RankContext
) -> FitResult:
    """Fits the model called `names.model` in `namespace`.

    Args:
        parts: the optional parts to take; others that are left from an earlier cell are not this fit's. None: all.

    Raises:
        UsageError: a name is missing or is not what its place needs; says which names there are.
    """
    if parts is not None:
        namespace = {name: value for name, value in namespace.items() if name in parts or name not in names.optional}
    data_module = namespace.get(DATA_MODULE)
    model = namespace.get(names.model)
    missing = [name for name in (names.model, names.train_loader) if name not in namespace]
    if data_module is not None and names.train_loader in missing:
        missing.remove(names.train_loader)
    if missing:
        raise UsageError(_nothing_to_fit(namespace, names, missing))
    if not isinstance(model, nn.Module):
        raise UsageError(f"`{names.model}` is a {type(model).__name__}; a torch.nn.Module or glt.Module can be fitted.")
    result = fit(
        model if _brings_its_own(model) else _plain_task(namespace, names, model),
        namespace.get(names.train_loader),
        namespace.get(names.val_loader),
        options=options,
        place=context.place,
        world_size=context.topology.world_size,
        devices_per_node=context.topology.devices,
        device=context.device,
        report=context.report,
        should_stop=context.should_stop,
        callbacks=tuple(namespace.get(names.callbacks) or ()),
        loggers=tuple(namespace.get(LOGGERS) or ()),
        datamodule=data_module,
        checkpoint_dir=context.checkpoint_dir,
        log_dir=context.log_dir,
        position=context.position,
    )
    context.fits.append((model, result))
    return result


def _brings_its_own(model: Any) -> bool:
    return isinstance(model, Module) or callable(getattr(model, "training_step", None))


def _plain_task(namespace: Mapping[str, Any], names: FitNames, model: Any) -> PlainTask:
    missing = [name for name in (names.loss_fn, names.optimizer) if namespace.get(name) is None]
    if missing:
        examples = {
            names.loss_fn: f"`{names.loss_fn} = nn.CrossEntropyLoss()`",
            names.optimizer: f"`{names.optimizer} = torch.optim.SGD({names.model}.parameters(), lr=0.1)`",
        }
        raise UsageError(
            f"`{names.model}` ({type(model).__name__}) is a plain nn.Module, and the cell has no "
            f"{' and no '.join(missing)}. "
            f"Next: write {' and '.join(examples[name] for name in missing)}, or make it a glt.Module."
        )
    return PlainTask(
        model,
        namespace[names.loss_fn],
        namespace[names.optimizer],
        scheduler=namespace.get(names.scheduler),
        metrics=namespace.get(names.metrics) or {},
    )


def _nothing_to_fit(namespace: Mapping[str, Any], names: FitNames, missing: list[str]) -> str:
    """One line: what was looked for, what is there instead, what to write."""
    own = {name: value for name, value in namespace.items() if not name.startswith("_")}
    models = [
        name for name, value in own.items() if isinstance(value, nn.Module) and not isinstance(value, nn.modules.loss._Loss)
    ]
    loaders = [name for name, value in own.items() if isinstance(value, DataLoader)]
    options = []
    if names.model in missing and models:
        options.append(f"--model {_nearest(names.model, models)}")
    if names.train_loader in missing and (others := [name for name in loaders if name != names.val_loader]):
        options.append(f"--loader {_nearest(names.train_loader, others)}")
    found = f" It has {' and '.join(models + loaders)}." if models or loaders else ""
    next_step = f"`%%gpulayer {' '.join(options)}`, or " if options else ""
    return f"Nothing to fit: the cell has no {' and no '.join(missing)}.{found} Next: {next_step}`%%ranks` to run it as it is."


def _nearest(name: str, candidates: list[str]) -> str:
    return (difflib.get_close_matches(name, candidates, n=1, cutoff=0.0) or candidates)[0]
