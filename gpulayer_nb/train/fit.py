"""`fit`: trains a module on this rank together with the others, or alone.

Runs in a rank whose process group is up, under torchrun, or in one plain process. Owns how the parts are put together.
Must not know how ranks were started, nor who reads the records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gpulayer_nb.plan.topology import RankPlace
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.train.attachment import attached, check_module
from gpulayer_nb.train.callback import Callback, check_callbacks
from gpulayer_nb.train.callback_state import plain_attributes
from gpulayer_nb.train.checkpoint import bare_model
from gpulayer_nb.train.data_source import DataSource
from gpulayer_nb.train.deterministic import deterministic
from gpulayer_nb.train.fit_parts import FitParts
from gpulayer_nb.train.fit_result import FitResult
from gpulayer_nb.train.group import Group
from gpulayer_nb.train.hooks import Hooks
from gpulayer_nb.train.logger_feed import LoggerFeed
from gpulayer_nb.train.model_checkpoint import ModelCheckpoint
from gpulayer_nb.train.position import FitPosition
from gpulayer_nb.train.reporter import Report, Reporter, drop
from gpulayer_nb.train.running_fit import RunningFit
from gpulayer_nb.train.seed import FitSeeds, KeptRandomState, order_seed
from gpulayer_nb.train.surroundings import never, set_up
from gpulayer_nb.train.sync_batchnorm import synced_batchnorm


def fit(
    module: nn.Module,
    train_loader: Any,
    val_loader: Any = None,
    *,
    options: FitOptions,
    place: RankPlace,
    world_size: int,
    devices_per_node: int,
    device: torch.device,
    report: Report = drop,
    should_stop: Callable[[], bool] = never,
    callbacks: Sequence[Callback] = (),
    loggers: Sequence[Any] = (),
    datamodule: Any = None,
    checkpoint_dir: Path | None = None,
    log_dir: Path | None = None,
    position: FitPosition | None = None,
) -> FitResult:
    """Train `module` on this rank; every rank calls it with the same arguments but its own `place` and `device`.

    Args:
        module: a Module, a PlainTask, or a LightningModule as it is.
        report: is given records, on global rank 0, from this thread.
        should_stop: asked at every exchange of metrics; True on one rank stops all after the same step.
        loggers: are given every mean, on global rank 0.
        checkpoint_dir: where checkpoints go when `options` name no folder; None there and here: none are written by default.
        log_dir: where loggers write that name no folder.
        position: is kept up to date, so that another thread knows where the fit is.

    Returns:
        How it ended, the same on every rank (checkpoint paths on rank 0 only). The module has the trained weights, on `device`.

    Raises:
        UsageError: something cannot be; on every rank that finds it, before the first step where that is possible.
    """
    check_module(module)
    given = callbacks = check_callbacks(callbacks)
    group = Group(place.rank, world_size, device)
    if options.checkpoint_dir is not None:
        checkpoint_dir = Path(options.checkpoint_dir)
    if options.enable_checkpointing and checkpoint_dir is not None and not any(isinstance(c, ModelCheckpoint) for c in callbacks):
        callbacks = (*callbacks, ModelCheckpoint())
    running = RunningFit(
        options, place, world_size, devices_per_node, device, position or FitPosition(), callbacks, checkpoint_dir, group=group,
        loggers=loggers,
    )  # fmt: skip
    feed = LoggerFeed(loggers, report) if loggers and place.rank == 0 else None
    reporter = Reporter(feed or report, place.rank)
    hooks = Hooks(running, module, running.callbacks)
    seeds = FitSeeds.drawn() if options.seed is None else FitSeeds.chosen(options.seed)
    seeds, shuffle_seed = group.from_rank_zero((seeds, order_seed()))
    data = DataSource(train_loader, val_loader, datamodule, running, group)
    with (
        KeptRandomState(),
        deterministic(options.deterministic),
        attached(module, running),
        data.ready("fit"),
        set_up(hooks, "fit"),
        synced_batchnorm(bare_model(module), device, wanted=options.sync_batchnorm),
    ):
        status = "failed"
        try:
            if feed is not None:
                feed.start(options, world_size, bare_model(module), log_dir)
            parts = FitParts(module, running, group, reporter, hooks, seeds, shuffle_seed, data, should_stop)
            result = parts.run()
            status = result.state
        finally:
            if feed is not None:
                feed.finalize(status)
    return replace(result, callbacks=tuple(plain_attributes(callback) for callback in given)) if place.rank == 0 else result
