"""The epochs of a fit: training, validation, schedules, callbacks, and when it ends.

Runs in a rank. Owns the order of things. All ranks take every decision here together and alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from torch import nn

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.checkpoint import bare_model
from gpulayer_nb.train.divided_loader import DividedLoader
from gpulayer_nb.train.eval_pass import EvalPass
from gpulayer_nb.train.fit_result import FitResult
from gpulayer_nb.train.group import Group
from gpulayer_nb.train.hooks import Hooks
from gpulayer_nb.train.in_step import in_step
from gpulayer_nb.train.metric_exchange import MetricExchange
from gpulayer_nb.train.metric_objects import take_objects
from gpulayer_nb.train.reporter import Reporter
from gpulayer_nb.train.running_fit import RunningFit
from gpulayer_nb.train.seed import FitSeeds, restore_random_states
from gpulayer_nb.train.train_pass import TrainPass


class FitLoop:
    def __init__(
        self,
        module: nn.Module,
        train: DividedLoader,
        train_pass: TrainPass,
        validation: EvalPass | None,
        running: RunningFit,
        group: Group,
        exchange: MetricExchange,
        reporter: Reporter,
        hooks: Hooks,
        seeds: FitSeeds,
        should_stop: Callable[[], bool],
    ) -> None:
        self._module, self._train, self._train_pass, self._validation = module, train, train_pass, validation
        self._running, self._group, self._exchange, self._reporter = running, group, exchange, reporter
        self._hooks, self._seeds, self._should_stop = hooks, seeds, should_stop
        self._options = running.options
        self._rules = () if running.optimization is None else running.optimization.rules
        self._last_means: dict[str, float] = {}

    def run(self) -> FitResult:
        """Train until a limit is reached, a callback ends it, or the user stops it."""
        running, position = self._running, self._running.position
        self._hooks.call("on_train_start")
        stopped = False
        while not stopped and not self._done():
            position.epoch = running.epochs_done
            stopped = self._epoch()
        self._hooks.call("on_train_end")
        return FitResult(
            state="stopped" if stopped else "finished",
            metrics=dict(self._last_means),
            global_step=position.global_step,
            epochs_done=running.epochs_done,
            checkpoints=tuple(running.checkpoint_paths),
        )

    def _done(self) -> bool:
        running, options = self._running, self._options
        return (
            self._train_pass.limit
            or (options.max_epochs is not None and running.epochs_done >= options.max_epochs)
            or (options.max_steps is not None and running.position.global_step >= options.max_steps)
        )

    def _epoch(self) -> bool:
        """One epoch, or what is left of one. Returns whether all ranks have agreed to stop."""
        running, train_pass = self._running, self._train_pass
        started = time.perf_counter()
        running.epoch_metrics = {}
        self._seeds.start_epoch(running.current_epoch, self._group.rank)
        self._hooks.call("on_train_epoch_start")
        if self._group.sum([float(train_pass.parameters_changed)])[0] > 0:
            train_pass.wrap_anew()
        finished = self._train_batches()
        if finished:
            running.epochs_done += 1
            running.batches_done = 0
        if not train_pass.stop:
            running.metric_log.weight = 1
            for hook in self._hooks.of_module("on_train_epoch_end"):
                hook()
        self._group.copy_from_rank_zero(list(bare_model(self._module).buffers()))
        self._close_training(time.perf_counter() - started)
        if not train_pass.stop and self._validation is not None and self._validation_is_due(finished):
            self._validate()
        if not train_pass.stop and finished:
            self._step_schedules()
            for hook in self._hooks.of_callbacks("on_train_epoch_end"):
                hook()
        if not train_pass.stop:
            self._agree_to_end()
        return train_pass.stop

    def _train_batches(self) -> bool:
        running, options = self._running, self._options
        skip = running.batches_done
        batches = self._train.epoch(running.current_epoch, skip_batches=skip, limit=options.limit_train_batches)
        if not self._train.equal:
            batches = in_step(batches, self._group)
        if skip and running.random_states is not None:
            restore_random_states(running.random_states[self._group.rank])
        running.random_states = None
        before = running.global_step
        finished = self._train_pass.run(batches, skip, running.num_training_batches)
        if running.global_step == before and skip == 0:
            raise UsageError("the training loader gave no batch: there is nothing to train on.")
        return finished

    def _close_training(self, seconds: float) -> None:
        """Share the sums of the training epoch. Of an epoch that the user stopped, only the numbers are kept."""
        running, train_pass = self._running, self._train_pass
        sums = running.metric_log.take_sums()
        sums.samples = train_pass.take_samples()
        means = self._exchange.epoch("train", sums, stop=False, limit=False)
        means.values.update(take_objects(running.metric_log, self._module, self._group))
        running.epoch_metrics.update(means.values)
        running.callback_metrics.update(means.values)
        self._last_means.update(means.values)
        if not train_pass.stop:
            self._reporter.prog_bar(running.metric_log.prog_bar)
            self._reporter.epoch("train", running.current_epoch, running.global_step, means, seconds)

    def _validation_is_due(self, finished: bool) -> bool:
        if self._done():
            return True
        return finished and self._running.epochs_done % self._options.check_val_every_n_epoch == 0

    def _validate(self) -> None:
        assert self._validation is not None
        means = self._validation.run()
        self._running.awaits_validation = False
        self._train_pass.stop = self._train_pass.stop or means.stop
        self._train_pass.limit = self._train_pass.limit or means.limit
        if not means.stop:
            self._last_means.update(means.values)

    def _step_schedules(self) -> None:
        running = self._running
        for rule in self._rules:
            if rule.interval == "epoch" and running.epochs_done % rule.frequency == 0 and not self._waits(rule):
                rule.step(running.epoch_metrics if rule.needs_metric else running.callback_metrics)

    def _waits(self, rule: Any) -> bool:
        """A schedule that looks at a validation metric rests in epochs without validation."""
        if not rule.needs_metric:
            return False
        name = rule.monitor or "val_loss"
        known = name in self._running.epoch_metrics
        return not known and (name in self._running.callback_metrics or self._running.awaits_validation)

    def _agree_to_end(self) -> None:
        """A callback may have ended the fit, or the user may have stopped it, on one rank only."""
        stop, limit = self._group.sum([float(self._should_stop()), float(self._running.should_stop)])
        self._train_pass.stop = self._train_pass.stop or stop > 0
        self._train_pass.limit = self._train_pass.limit or limit > 0
