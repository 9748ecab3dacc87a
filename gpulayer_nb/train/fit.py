"""`fit`: trains a module on this rank together with the others, or alone.

Runs in a rank whose process group is up, under torchrun, or in one plain process. Owns how the parts are put together.
Must not know how ranks were started, nor who reads the records.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.topology import RankPlace
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.records.record import FitStarted
from gpulayer_nb.train.attachment import attached, check_module
from gpulayer_nb.train.callback import Callback
from gpulayer_nb.train.checkpoint import bare_model, load_weights
from gpulayer_nb.train.data_source import DataSource
from gpulayer_nb.train.deterministic import deterministic
from gpulayer_nb.train.eval_pass import EvalPass
from gpulayer_nb.train.fit_loop import FitLoop
from gpulayer_nb.train.fit_result import FitResult
from gpulayer_nb.train.group import Group
from gpulayer_nb.train.hooks import Hooks
from gpulayer_nb.train.loaders import DividedLoader, divide
from gpulayer_nb.train.logger_feed import LoggerFeed
from gpulayer_nb.train.metric_exchange import MetricExchange
from gpulayer_nb.train.model_checkpoint import ModelCheckpoint
from gpulayer_nb.train.module import Module
from gpulayer_nb.train.optimizers import Optimization
from gpulayer_nb.train.plain import PlainTask
from gpulayer_nb.train.position import FitPosition
from gpulayer_nb.train.precision import Precision
from gpulayer_nb.train.reporter import Report, Reporter, drop
from gpulayer_nb.train.resume import Saver, fetch
from gpulayer_nb.train.running_fit import RunningFit
from gpulayer_nb.train.seed import FitSeeds, KeptRandomState, order_seed
from gpulayer_nb.train.step_module import distribute
from gpulayer_nb.train.surroundings import never, set_up
from gpulayer_nb.train.sync_batchnorm import synced_batchnorm
from gpulayer_nb.train.train_pass import TrainPass


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
            parts = _Parts(module, running, group, reporter, hooks, seeds, shuffle_seed, data, should_stop)
            result = parts.run()
            status = result.state
        finally:
            if feed is not None:
                feed.finalize(status)
    return result


class _Parts:
    """What one fit is made of. A class, so that an error's frames can be told to let go of it."""

    def __init__(
        self,
        module: nn.Module,
        running: RunningFit,
        group: Group,
        reporter: Reporter,
        hooks: Hooks,
        seeds: FitSeeds,
        shuffle_seed: int,
        data: DataSource,
        should_stop: Callable[[], bool],
    ) -> None:
        self.module, self.running, self.group, self.reporter = module, running, group, reporter
        self.hooks, self.should_stop = hooks, should_stop
        options, device = running.options, running.device
        self.exchange = MetricExchange(group)
        self.precision = Precision(options.precision, device)
        checkpoint = None if options.resume is None else fetch(options.resume, running, group)
        if checkpoint is not None:
            seeds = FitSeeds(*checkpoint["seeds"]) if options.seed is None else seeds
        self.seeds = seeds
        self.train, self.val = self._divide(data, shuffle_seed)
        module.to(device)
        module.train()
        if checkpoint is not None:
            load_weights(module, checkpoint, str(options.resume))
        optimization = Optimization.read(module.configure_optimizers())  # type: ignore[operator]  # checked by check_module
        optimization.check_parameters(module)
        optimization.move_state()
        running.optimization = optimization
        saver = Saver(module, running, group, self.precision, seeds, self.hooks, reporter)
        running.write_checkpoint = saver.write
        if checkpoint is not None:
            saver.restore(checkpoint, str(options.resume))
        self._count()
        self._check_ranks_agree()

    def _divide(self, data: DataSource, shuffle_seed: int) -> tuple[DividedLoader, DividedLoader | None]:
        running, group = self.running, self.group

        def part(loader: Any, training: bool) -> DividedLoader:
            return divide(
                loader, group.rank, group.world_size, training=training, seed=running.options.seed, fallback_seed=shuffle_seed,
                worker_seed=self.seeds.torch, replace_sampler=running.options.use_distributed_sampler,
                agree=lambda digest: len(set(group.gather(digest))) == 1, device_type=running.device.type,
            )  # fmt: skip

        train = part(data.train_loader(), training=True)
        val_loader = data.val_loader() if self._has_validation() else None
        val = None if val_loader is None else part(val_loader, training=False)
        running.awaits_validation = val is not None
        return train, val

    def _has_validation(self) -> bool:
        own = getattr(type(self.module), "validation_step", None)
        return own is not None and own is not Module.validation_step

    def _count(self) -> None:
        """How many batches an epoch and steps the fit will have, as far as it is known."""
        running, options = self.running, self.running.options
        batches = self.train.limited(options.limit_train_batches)
        if batches == 0 and (options.max_epochs is None or options.max_epochs > 0):
            samples = self.train.samples
            raise UsageError(
                f"the training loader gives this rank no batch: {'?' if samples is None else samples} samples over "
                f"{self.group.world_size} ranks in batches of {self.train.batch_size}. Use a smaller batch, or no drop_last."
            )
        running.num_training_batches = batches
        steps = None if batches is None else math.ceil(batches / options.accumulate_grad_batches)
        total = None if steps is None or options.max_epochs is None else steps * options.max_epochs
        limits = [limit for limit in (total, options.max_steps) if limit is not None]
        running.estimated_stepping_batches = min(limits) if limits else None

    def _check_ranks_agree(self) -> None:
        """One exchange before the first step finds what would otherwise be a hang in it."""
        shapes = [(n, tuple(p.shape), str(p.dtype), p.requires_grad) for n, p in bare_model(self.module).named_parameters()]
        digest = hashlib.blake2b(repr(shapes).encode(), digest_size=8).hexdigest()
        seen = self.group.gather((digest, len(shapes), self.train.batches))
        for rank, (other, parameters, batches) in enumerate(seen):
            if other != seen[0][0]:
                raise UsageError(
                    f"rank {rank}'s model differs from rank 0's ({parameters} and {seen[0][1]} parameters, or other shapes). "
                    "Every rank has to build the same model."
                )
            if batches != seen[0][2]:
                counts = ", ".join(f"rank {r}: {b}" for r, (_, _, b) in enumerate(seen[:8]))
                raise UsageError(f"the ranks have different numbers of training batches ({counts}). Every rank needs as many.")
        if all(batches is not None for _, _, batches in seen):
            self.train.equal = True

    def run(self) -> FitResult:
        running, options = self.running, self.running.options
        deadline = None
        if options.max_time_seconds is not None and self.group.rank == 0:
            deadline = time.perf_counter() + options.max_time_seconds
        self._say_what_will_be_done()
        step = distribute(
            self.module, self.precision, self.group.world_size, find_unused_parameters=options.find_unused_parameters
        )
        train_pass = TrainPass(
            self.module, step, running, self.precision, self.exchange, self.reporter, self.hooks, self.should_stop, deadline
        )
        del step
        try:
            self.hooks.call("on_fit_start")
            loop = FitLoop(
                self.module, self.train, train_pass, self._validation(), running, self.group, self.exchange, self.reporter,
                self.hooks, self.seeds, self.should_stop,
            )  # fmt: skip
            result = loop.run()
            self.hooks.call("on_fit_end")
            return result
        except BaseException as error:
            for hook in self.hooks.of_callbacks("on_exception"):
                hook(error)
            raise
        finally:
            train_pass.release()
            running.write_checkpoint = None

    def _validation(self) -> EvalPass | None:
        if self.val is None:
            return None
        return EvalPass(
            "val", self.module, self.val, self.running, self.precision, self.exchange, self.group, self.reporter, self.hooks,
            self.should_stop, self.running.options.limit_val_batches,
        )  # fmt: skip

    def _say_what_will_be_done(self) -> None:
        running, options = self.running, self.running.options
        task = self.module
        self.reporter.record(
            FitStarted(
                time=time.time(),
                max_epochs=options.max_epochs,
                max_steps=running.estimated_stepping_batches,
                batches_per_epoch=running.num_training_batches,
                val_batches=None if self.val is None else self.val.limited(options.limit_val_batches),
                batch_size=self.train.batch_size,
                accumulate_grad_batches=options.accumulate_grad_batches,
                train_samples=self.train.samples,
                val_samples=None if self.val is None else self.val.samples,
                start_epoch=running.epochs_done,
                start_step=running.global_step,
                prog_bar=("loss", *task.metrics) if isinstance(task, PlainTask) else (),
            )
        )
        for divided in (self.train, self.val):
            for notice in () if divided is None else divided.notices:
                self.reporter.notice(notice, "warning")
        if options.max_epochs is not None and 0 < options.max_epochs <= running.epochs_done:
            self.reporter.notice(
                f"the checkpoint has {running.epochs_done} of {options.max_epochs} epochs already: nothing is left to train. "
                "Ask for more epochs in all to go on."
            )
