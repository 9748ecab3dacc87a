"""One pass over a validation or test loader: every sample exactly once over all ranks, no gradients.

Runs in a rank. Ranks may have different numbers of batches, or none: they meet only at the end, to share sums.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from torch import nn

from gpulayer_nb.train.attachment import step_of
from gpulayer_nb.train.batch import sample_count, to_device
from gpulayer_nb.train.divided_loader import DividedLoader
from gpulayer_nb.train.gathering import non_linear
from gpulayer_nb.train.group import Group
from gpulayer_nb.train.hooks import Hooks
from gpulayer_nb.train.metric_exchange import EpochMeans, MetricExchange
from gpulayer_nb.train.metric_objects import take_objects
from gpulayer_nb.train.precision import Precision
from gpulayer_nb.train.reporter import Reporter
from gpulayer_nb.train.running_fit import RunningFit
from gpulayer_nb.train.surroundings import evaluation_mode

HOOK_NAMES = {"val": "validation", "test": "test"}
SHOWN_EVERY_SECONDS = 0.5  # of progress


class EvalPass:
    """`split` is "val" or "test"."""

    def __init__(
        self,
        split: str,
        module: nn.Module,
        loader: DividedLoader,
        running: RunningFit,
        precision: Precision,
        exchange: MetricExchange,
        group: Group,
        reporter: Reporter,
        hooks: Hooks,
        should_stop: Callable[[], bool],
        limit: int | float | None,
    ) -> None:
        self._split, self._module, self._loader, self._running, self._precision = split, module, loader, running, precision
        self._exchange, self._group, self._reporter = exchange, group, reporter
        self._hooks, self._should_stop, self._limit = hooks, should_stop, limit
        self._warned: set[str] = set()
        self._word = HOOK_NAMES[split]
        self._step = step_of(module, f"{self._word}_step")
        self._batch_start = hooks.of(f"on_{self._word}_batch_start")
        self._batch_end = hooks.of(f"on_{self._word}_batch_end")

    def run(self) -> EpochMeans:
        """Evaluate and report; the module's training modes are as before afterwards."""
        running = self._running
        before = (running.position.phase, running.position.batch_index)
        started = time.perf_counter()
        running.position.phase = self._split
        try:
            with evaluation_mode(self._module):
                self._hooks.call(f"on_{self._word}_start")
                self._hooks.call(f"on_{self._word}_epoch_start")
                with running.uneven_batches():
                    samples = self._batches()
                self._warn_of_averages()
                running.metric_log.weight = 1
                self._hooks.call(f"on_{self._word}_epoch_end")
                objects = take_objects(running.metric_log, self._module, self._group)
        finally:
            running.position.phase, running.position.batch_index = before
        sums = running.metric_log.take_sums()
        sums.samples = samples
        means = self._exchange.epoch(self._split, sums, stop=self._should_stop(), limit=running.should_stop)
        means.values.update(objects)
        if not means.stop:  # a pass that was cut short has no mean to show
            running.epoch_metrics.update(means.values)
            running.callback_metrics.update(means.values)
            seconds = time.perf_counter() - started
            self._reporter.prog_bar(running.metric_log.prog_bar)
            self._reporter.epoch(self._split, running.current_epoch, running.global_step, means, seconds)
            self._hooks.call(f"on_{self._word}_end")
        return means

    def _batches(self) -> int:
        running, log, position = self._running, self._running.metric_log, self._running.position
        count = self._loader.limited(self._limit)
        samples = shown_samples = 0
        shown_at = time.perf_counter()
        moves = running.device.type != "cpu"
        for index, batch in enumerate(self._loader.epoch(running.current_epoch, limit=self._limit)):
            if self._should_stop():
                break
            if moves:
                batch = to_device(batch, running.device)
            position.batch_index = index
            log.weight = size = sample_count(batch)
            samples += size
            for hook in self._batch_start:
                hook(batch, index)
            with self._precision.forward():
                output = self._step(batch, index)
            for hook in self._batch_end:
                hook(output, batch, index)
            now = time.perf_counter()
            if now - shown_at >= SHOWN_EVERY_SECONDS:  # only rank 0's own pace is known here, so it stands for all
                rate = (samples - shown_samples) / (now - shown_at) * running.world_size
                self._reporter.progress(self._split, running.current_epoch, index, count, running.global_step, rate)
                shown_at, shown_samples = now, samples
        return samples

    def _warn_of_averages(self) -> None:
        """A mean over batches is no F1 of all samples; say so once, where there is more than one batch."""
        log = self._running.metric_log
        log.fold()
        several = self._group.world_size > 1 or self._loader.limited(self._limit) != 1
        for name in non_linear(log.sums.values) if several else ():
            if name not in self._warned:
                self._warned.add(name)
                self._reporter.notice(
                    f"{name} is the mean over batches, which is not the value of all samples together. For that keep predictions "
                    f"and targets, and compute it in on_{self._word}_epoch_end from self.trainer.gather(...).",
                    "warning",
                )
