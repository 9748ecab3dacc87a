"""`predict`: a model's answers for every batch of a loader, computed by all ranks, in the data set's order.

Runs in a rank, as `fit` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gpulayer_nb.plan.topology import RankPlace
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.train.attachment import step_of
from gpulayer_nb.train.batch import to_device
from gpulayer_nb.train.dealt_batches import deal_batches
from gpulayer_nb.train.position import FitPosition
from gpulayer_nb.train.reporter import Report, drop
from gpulayer_nb.train.surroundings import evaluation_mode, never, surroundings

_NONE_LEFT = object()
_CPU = torch.device("cpu")


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
    should_stop: Callable[[], bool] = never,
    callbacks: Sequence[Any] = (),
    loggers: Sequence[Any] = (),
    datamodule: Any = None,
    checkpoint_dir: Path | None = None,
    log_dir: Path | None = None,
    position: FitPosition | None = None,
) -> list[Any]:
    """Run `predict_step` (or the forward of a plain model) on every batch once.

    Rank 0's weights count, or those of the checkpoint that `options.resume` names.

    Returns:
        On rank 0 the predictions of all batches, in the data set's order and in main memory; on the others an empty list. After
        a stop, the batches that were done.
    """
    with surroundings(
        "predict", module, loader, options=options, place=place, world_size=world_size, devices_per_node=devices_per_node,
        device=device, report=report, callbacks=callbacks, loggers=loggers, datamodule=datamodule, checkpoint_dir=checkpoint_dir,
        log_dir=log_dir, position=position,
    ) as around:  # fmt: skip
        batches = deal_batches(
            around.data.loader_of("predict"), place.rank, world_size, seed=around.order_seed, limit=options.limit_predict_batches,
            device_type=device.type,
        )  # fmt: skip
        hooks, running = around.hooks, around.running
        running.position.phase = "predict"
        step: Any = step_of(module, "predict_step") if hasattr(module, "predict_step") else _forward_of(module)
        before, after = hooks.of("on_predict_batch_start"), hooks.of("on_predict_batch_end")
        own: list[Any] = []
        with evaluation_mode(module):
            hooks.call("on_predict_start")
            hooks.call("on_predict_epoch_start")
            with running.uneven_batches():
                for index, batch in enumerate(batches):
                    if should_stop():
                        break
                    running.position.batch_index = index
                    batch = to_device(batch, device)
                    for hook in before:
                        hook(batch, index)
                    with around.precision.forward():
                        output = step(batch, index)
                    for hook in after:
                        hook(output, batch, index)
                    own.append(to_device(output, _CPU))
            hooks.call("on_predict_epoch_end")
            hooks.call("on_predict_end")
        around.reporter.progress("predict", 0, len(own) - 1, None, 0, None)
        by_turn = zip_longest(*around.group.gather_on_rank_zero(own), fillvalue=_NONE_LEFT)
        return [prediction for turn in by_turn for prediction in turn if prediction is not _NONE_LEFT]


def _forward_of(module: nn.Module) -> Callable[[Any, int], Any]:
    return lambda batch, index: module(batch[0] if isinstance(batch, (list, tuple)) and len(batch) == 2 else batch)
