"""What a Trainer in the notebook asks of the ranks: its objects under names of their own, in one request.

Runs in the kernel. Owns those names. Must not know how a request is run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpulayer_nb.api.resuming import with_folder
from gpulayer_nb.client.run_request import RunRequest
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.records.fit_names import FitNames
from gpulayer_nb.records.fit_options import FitOptions

# Names under which a fit's objects travel; nobody writes these by hand.
_NAMES = FitNames(
    model="_gpulayer_model",
    train_loader="_gpulayer_train_loader",
    val_loader="_gpulayer_val_loader",
    loss_fn="_gpulayer_loss_fn",
    optimizer="_gpulayer_optimizer",
    scheduler="_gpulayer_scheduler",
    metrics="_gpulayer_metrics",
    callbacks="_gpulayer_callbacks",
)
_DATA_MODULE = "_gpulayer_data_module"
_LOGGERS = "_gpulayer_loggers"


def fit_request(
    mode: str,
    parts: Mapping[str, Any],
    *,
    callbacks: Sequence[Any],
    loggers: Sequence[Any],
    topology: Topology,
    accelerator: str,
    target: str,
    options: FitOptions,
    launch_options: Mapping[str, Any],
    root: Path | None,
    last_run: Path | None,
    detach: bool = False,
) -> RunRequest:
    """The request of one `fit`, `validate`, `test` or `predict`.

    Args:
        parts: "model", "train_loader", "val_loader" and "datamodule"; None where there is none.
        root: holds the runs; None for the user's own data folder.
        last_run: folder of this trainer's last run, where "last" and "best" are looked for first.
    """
    values = {_NAMES.model: parts["model"], _NAMES.train_loader: parts["train_loader"], _NAMES.val_loader: parts["val_loader"]}
    values |= {_NAMES.callbacks: callbacks or None, _LOGGERS: loggers or None, _DATA_MODULE: parts["datamodule"]}
    own_folder = any(getattr(callback, "dirpath", None) is not None for callback in callbacks)  # a ModelCheckpoint's
    return RunRequest(
        mode=mode,
        topology=topology,
        accelerator=accelerator,
        target=target,
        options=options if own_folder else with_folder(options, root, last_run),
        names=_NAMES,
        values={name: value for name, value in values.items() if value is not None},
        collect=mode == "predict",
        group_timeout_seconds=launch_options.get("timeout"),
        env=launch_options.get("env", {}),
        root=root,
        detach=detach,
    )
