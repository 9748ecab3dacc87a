"""What a pass without training needs around it: one model on all ranks, seeds, loggers, hooks of its beginning and end.

Runs in a rank. Must not know what the pass does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gpulayer_nb.plan.topology import RankPlace
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.train.attachment import attached
from gpulayer_nb.train.callback import check_callbacks
from gpulayer_nb.train.checkpoint import load_weights
from gpulayer_nb.train.data_source import DataSource
from gpulayer_nb.train.group import Group
from gpulayer_nb.train.hooks import Hooks
from gpulayer_nb.train.logger_feed import LoggerFeed
from gpulayer_nb.train.position import FitPosition
from gpulayer_nb.train.precision import Precision
from gpulayer_nb.train.reporter import Report, Reporter
from gpulayer_nb.train.resume import fetch
from gpulayer_nb.train.running_fit import RunningFit
from gpulayer_nb.train.seed import FitSeeds, KeptRandomState, order_seed


@dataclass(frozen=True)
class Surroundings:
    """`order_seed` is that of a shuffled loader, the same on every rank."""

    running: RunningFit
    group: Group
    reporter: Reporter
    hooks: Hooks
    precision: Precision
    data: DataSource
    seeds: FitSeeds
    order_seed: int


@contextmanager
def surroundings(
    stage: str,
    module: nn.Module,
    loader: Any,
    *,
    options: FitOptions,
    place: RankPlace,
    world_size: int,
    devices_per_node: int,
    device: torch.device,
    report: Report,
    callbacks: Sequence[Any],
    loggers: Sequence[Any],
    datamodule: Any,
    checkpoint_dir: Path | None,
    log_dir: Path | None,
    position: FitPosition | None,
) -> Iterator[Surroundings]:
    """Rank 0's weights, or a checkpoint's, on every rank and device; the module attached; each rank seeded for itself."""
    callbacks = check_callbacks(callbacks)
    group = Group(place.rank, world_size, device)
    running = RunningFit(
        options, place, world_size, devices_per_node, device, position or FitPosition(), callbacks, checkpoint_dir, group=group,
        loggers=loggers,
    )  # fmt: skip
    feed = LoggerFeed(loggers if place.rank == 0 else (), report)
    hooks = Hooks(running, module, running.callbacks)
    seeds = FitSeeds.drawn() if options.seed is None else FitSeeds.chosen(options.seed)
    seeds, shuffle_seed = group.from_rank_zero((seeds, order_seed()))
    data = DataSource(None, loader, datamodule, running, group)
    if options.resume is not None:
        load_weights(module, fetch(options.resume, running, group), options.resume)
    module.to(device)
    group.copy_from_rank_zero([*module.parameters(), *module.buffers()])
    feed.start(options, world_size, module, log_dir)
    with KeptRandomState(), attached(module, running), data.ready(stage), set_up(hooks, stage):
        seeds.start_epoch(0, group.rank)
        status = "failed"
        try:
            yield Surroundings(
                running, group, Reporter(feed, place.rank), hooks, Precision(options.precision, device), data, seeds,
                shuffle_seed if options.seed is None else options.seed,
            )  # fmt: skip
            status = "finished"
        except BaseException as error:
            for hook in hooks.of_callbacks("on_exception"):
                hook(error)
            raise
        finally:
            feed.finalize(status)


@contextmanager
def set_up(hooks: Hooks, stage: str) -> Iterator[None]:
    hooks.call("setup", stage)
    try:
        yield
    finally:
        hooks.call("teardown", stage)


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """No gradients and `eval()` meanwhile; afterwards every part is in the mode it was in."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training


def never() -> bool:
    """The `should_stop` of a pass that nobody stops."""
    return False


ShouldStop = Callable[[], bool]
