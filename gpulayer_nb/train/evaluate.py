"""`evaluate`: one validation or test, divided among the ranks.

Runs in a rank, as `fit` does. Owns how such a pass is put together; the pass itself is EvalPass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.topology import RankPlace
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.train.callback import defines
from gpulayer_nb.train.eval_pass import HOOK_NAMES, EvalPass
from gpulayer_nb.train.fit_result import FitResult
from gpulayer_nb.train.loaders import divide
from gpulayer_nb.train.metric_exchange import MetricExchange
from gpulayer_nb.train.position import FitPosition
from gpulayer_nb.train.reporter import Report, drop
from gpulayer_nb.train.surroundings import never, surroundings


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
    should_stop: Callable[[], bool] = never,
    callbacks: Sequence[Any] = (),
    loggers: Sequence[Any] = (),
    datamodule: Any = None,
    checkpoint_dir: Path | None = None,
    log_dir: Path | None = None,
    position: FitPosition | None = None,
) -> FitResult:
    """Run `validation_step` (`split` "val") or `test_step` ("test") on every sample once.

    Rank 0's weights count, or those of the checkpoint that `options.resume` names.

    Returns:
        The means over all samples, the same on every rank.
    """
    step_name = f"{HOOK_NAMES[split]}_step"
    if not defines(module, step_name):
        raise UsageError(f"{type(module).__name__} has no {step_name}(batch, batch_idx). Define it and log what is to be known.")
    with surroundings(
        "validate" if split == "val" else split, module, loader, options=options, place=place, world_size=world_size,
        devices_per_node=devices_per_node, device=device, report=report, callbacks=callbacks, loggers=loggers,
        datamodule=datamodule, checkpoint_dir=checkpoint_dir, log_dir=log_dir, position=position,
    ) as around:  # fmt: skip
        group = around.group
        part = divide(
            around.data.loader_of(split), place.rank, world_size, training=False, seed=around.order_seed,
            worker_seed=around.seeds.torch, replace_sampler=options.use_distributed_sampler,
            agree=lambda digest: len(set(group.gather(digest))) == 1, device_type=device.type,
        )  # fmt: skip
        for notice in part.notices:
            around.reporter.notice(notice, "warning")
        limit = options.limit_val_batches if split == "val" else options.limit_test_batches
        evaluation = EvalPass(
            split, module, part, around.running, around.precision, MetricExchange(group), group, around.reporter, around.hooks,
            should_stop, limit,
        )  # fmt: skip
        means = evaluation.run()
    return FitResult(state="stopped" if means.stop else "finished", metrics={} if means.stop else means.values)
