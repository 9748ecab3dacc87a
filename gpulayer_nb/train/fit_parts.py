"""What one fit is made of, put together in the order in which it can be refused.

Runs in a rank. Owns the checks before the first step: loaders, optimizers, and that all ranks fit the same. Epochs are FitLoop's.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from typing import Any

from torch import nn

from gpulayer_nb.errors import UsageError
from gpulayer_nb.records.record import FitStarted
from gpulayer_nb.train.callback import defines
from gpulayer_nb.train.checkpoint import bare_model, load_weights
from gpulayer_nb.train.data_source import DataSource
from gpulayer_nb.train.divided_loader import DividedLoader
from gpulayer_nb.train.eval_pass import EvalPass
from gpulayer_nb.train.fit_loop import FitLoop
from gpulayer_nb.train.fit_result import FitResult
from gpulayer_nb.train.group import Group
from gpulayer_nb.train.hooks import Hooks
from gpulayer_nb.train.loaders import divide, seed_of
from gpulayer_nb.train.metric_exchange import MetricExchange
from gpulayer_nb.train.optimizers import Optimization
from gpulayer_nb.train.plain import PlainTask
from gpulayer_nb.train.precision import Precision
from gpulayer_nb.train.reporter import Reporter
from gpulayer_nb.train.resume import Saver, fetch
from gpulayer_nb.train.running_fit import RunningFit
from gpulayer_nb.train.seed import FitSeeds
from gpulayer_nb.train.step_module import distribute
from gpulayer_nb.train.train_pass import TrainPass


class FitParts:
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
        optimization.check(module)
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
            own_seed = group.from_rank_zero(seed_of(loader))  # a rank's own would give every rank another order
            chosen = (running.options.seed, own_seed, shuffle_seed)
            return divide(
                loader, group.rank, group.world_size, training=training, seed=next(s for s in chosen if s is not None),
                worker_seed=self.seeds.torch, replace_sampler=running.options.use_distributed_sampler,
                agree=lambda digest: len(set(group.gather(digest))) == 1, device_type=running.device.type,
            )  # fmt: skip

        train = part(data.train_loader(), training=True)
        validates = defines(self.module, "validation_step")
        if not validates and data.has_own_val_loader:
            self.reporter.notice(
                f"the validation loader is not used: {type(self.module).__name__} has no validation_step(batch, batch_idx).",
                "warning",
            )
        val_loader = data.val_loader() if validates else None
        val = None if val_loader is None else part(val_loader, training=False)
        running.awaits_validation = val is not None
        return train, val

    def _count(self) -> None:
        """How many batches an epoch and steps the fit will have, as far as it is known."""
        running, options = self.running, self.running.options
        batches = self.train.limited(options.limit_train_batches)
        if batches == 0 and (options.max_epochs is None or options.max_epochs > 0):
            samples = self.train.samples
            if self.train.batches:
                raise UsageError(
                    f"limit_train_batches={options.limit_train_batches} leaves none of this rank's {self.train.batches} batches: "
                    "there is nothing to train on."
                )
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
        if self.train.batches is not None and self.train.exact:
            self.train.equal = True

    def run(self) -> FitResult:
        running, options = self.running, self.running.options
        deadline = None
        if options.max_time_seconds is not None and self.group.rank == 0:
            deadline = time.perf_counter() + options.max_time_seconds
        self._say_what_will_be_done()
        train_pass = TrainPass(
            self.module,
            self._wrapped,
            running,
            self.precision,
            self.exchange,
            self.reporter,
            self.hooks,
            self.should_stop,
            deadline,
        )
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

    def _wrapped(self) -> Any:
        """The training step, with its gradients averaged over the ranks."""
        unused = self.running.options.find_unused_parameters
        return distribute(self.module, self.precision, self.group.world_size, find_unused_parameters=unused)

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
