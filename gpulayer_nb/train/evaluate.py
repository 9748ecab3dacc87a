"""`evaluate` and `predict`: one pass over a loader without training, divided among the ranks.

Runs in a rank, as `fit` does. Owns how such a pass is put together; the pass itself is EvalPass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import torch
from torch import nn

from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.topology import RankPlace
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.train.attachment import attached
from gpulayer_nb.train.batch import to_device
from gpulayer_nb.train.callback import Callback
from gpulayer_nb.train.data_source import DataSource
from gpulayer_nb.train.eval_pass import HOOK_NAMES, EvalPass
from gpulayer_nb.train.fit_result import FitResult
from gpulayer_nb.train.group import Group
from gpulayer_nb.train.hooks import Hooks
from gpulayer_nb.train.loaders import deal_batches, divide
from gpulayer_nb.train.metric_exchange import MetricExchange
from gpulayer_nb.train.module import Module
from gpulayer_nb.train.position import FitPosition
from gpulayer_nb.train.precision import Precision
from gpulayer_nb.train.reporter import Report, Reporter, drop
from gpulayer_nb.train.running_fit import RunningFit
from gpulayer_nb.train.seed import FitSeeds, KeptRandomState, order_seed

_NONE_LEFT = object()


def _never() -> bool:
    return False


def evaluate(
    module: nn.Module,
    loader: Any = None,
    *,
    split: str,
    options: FitOptions,
    place: RankPlace,
    world_size: int,
    devices_per_node: int,
    device: torch.device,
    report: Report = drop,
    should_stop: Callable[[], bool] = _never,
    callbacks: Sequence[Callback] = (),
    datamodule: Any = None,
    position: FitPosition | None = None,
) -> FitResult:
    """Run `validation_step` (`split` "val") or `test_step` ("test") on every sample once; rank 0's weights count.

    Returns:
        The means over all samples, the same on every rank.
    """
    step_name = f"{HOOK_NAMES[split]}_step"
    if getattr(type(module), step_name, None) in (None, getattr(Module, step_name)):
        raise UsageError(f"{type(module).__name__} has no {step_name}(batch, batch_idx). Define it and log what is to be known.")
    group = Group(place.rank, world_size, device)
    running = RunningFit(options, place, world_size, devices_per_node, device, position or FitPosition(), callbacks, None)
    reporter = Reporter(report, place.rank)
    data = DataSource(None, loader, datamodule, running, group)
    stage = "validate" if split == "val" else split
    with _surroundings(module, running, group) as (seeds, shuffle_seed), data.ready(stage):
        part = divide(
            data.loader_of(split), place.rank, world_size, training=False, seed=options.seed, fallback_seed=shuffle_seed,
            worker_seed=seeds.torch, replace_sampler=options.use_distributed_sampler,
            agree=lambda digest: len(set(group.gather(digest))) == 1, device_type=device.type,
        )  # fmt: skip
        for notice in part.notices:
            reporter.notice(notice, "warning")
        evaluation = EvalPass(
            split, module, part, running, Precision(options.precision, device), MetricExchange(group), reporter,
            Hooks(running, module, running.callbacks), should_stop, options.limit_val_batches,
        )  # fmt: skip
        means = evaluation.run()
    return FitResult(state="stopped" if means.stop else "finished", metrics={} if means.stop else means.values)


def predict(
    module: nn.Module,
    loader: Any = None,
    *,
    options: FitOptions,
    place: RankPlace,
    world_size: int,
    devices_per_node: int,
    device: torch.device,
    report: Report = drop,
    should_stop: Callable[[], bool] = _never,
    datamodule: Any = None,
    position: FitPosition | None = None,
) -> list[Any]:
    """Run `predict_step` (or the forward of a plain model) on every batch once; rank 0's weights count.

    Returns:
        On rank 0 the predictions of all batches, in the loader's order and in main memory; on the others an empty list. After a
        stop, the batches that were done.
    """
    group = Group(place.rank, world_size, device)
    running = RunningFit(options, place, world_size, devices_per_node, device, position or FitPosition(), (), None)
    reporter, precision = Reporter(report, place.rank), Precision(options.precision, device)
    data = DataSource(None, loader, datamodule, running, group)
    step: Any = getattr(module, "predict_step", None) or _forward_of(module)
    own: list[Any] = []
    with _surroundings(module, running, group) as (_, shuffle_seed), data.ready("predict"):
        seed = shuffle_seed if options.seed is None else options.seed
        batches = deal_batches(data.loader_of("predict"), place.rank, world_size, seed=seed, device_type=device.type)
        running.position.phase = "predict"
        modes = [(part, part.training) for part in module.modules()]
        module.eval()
        try:
            with torch.no_grad():
                for index, batch in enumerate(batches):
                    if should_stop():
                        break
                    running.position.batch_index = index
                    with precision.forward():
                        own.append(to_device(step(to_device(batch, device), index), torch.device("cpu")))
        finally:
            for part, training in modes:
                part.training = training
    reporter.progress("predict", 0, len(own) - 1, None, 0, None)
    by_turn = zip_longest(*group.gather_on_rank_zero(own), fillvalue=_NONE_LEFT)
    return [prediction for turn in by_turn for prediction in turn if prediction is not _NONE_LEFT]


@contextmanager
def _surroundings(module: nn.Module, running: RunningFit, group: Group) -> Iterator[tuple[FitSeeds, int]]:
    """Rank 0's weights on every rank and device, the module attached, random numbers seeded for each rank."""
    options = running.options
    seeds = FitSeeds.drawn() if options.seed is None else FitSeeds.chosen(options.seed)
    seeds, shuffle_seed = group.from_rank_zero((seeds, order_seed()))
    module.to(running.device)
    group.copy_from_rank_zero([*module.parameters(), *module.buffers()])
    with KeptRandomState(), attached(module, running):
        seeds.start_epoch(0, group.rank)
        yield seeds, shuffle_seed


def _forward_of(module: nn.Module) -> Callable[[Any, int], Any]:
    return lambda batch, index: module(batch[0] if isinstance(batch, (list, tuple)) and len(batch) == 2 else batch)
