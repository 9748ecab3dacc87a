"""One pass over a validation or test loader: every sample exactly once over all ranks, no gradients.

Runs in a rank. Ranks may have different numbers of batches, or none: they meet only at the end, to share sums.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import nn

from gpulayer_nb.train.batch import sample_count, to_device
from gpulayer_nb.train.hooks import Hooks
from gpulayer_nb.train.loaders import DividedLoader
from gpulayer_nb.train.metric_exchange import EpochMeans, MetricExchange
from gpulayer_nb.train.precision import Precision
from gpulayer_nb.train.reporter import Reporter
from gpulayer_nb.train.running_fit import RunningFit

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
        reporter: Reporter,
        hooks: Hooks,
        should_stop: Callable[[], bool],
        limit: int | float | None,
    ) -> None:
        self._split, self._module, self._loader, self._running, self._precision = split, module, loader, running, precision
        self._exchange, self._reporter, self._hooks, self._should_stop = exchange, reporter, hooks, should_stop
        self._limit = limit
        self._word = HOOK_NAMES[split]
        self._step = getattr(module, f"{self._word}_step")
        callbacks_too = split == "val"
        find = hooks.of if callbacks_too else hooks.of_module
        self._batch_start = find(f"on_{self._word}_batch_start")
        self._batch_end = find(f"on_{self._word}_batch_end")

    def run(self) -> EpochMeans:
        """Evaluate and report; the module's training modes are as before afterwards."""
        running = self._running
        modes = [(part, part.training) for part in self._module.modules()]
        before = (running.position.phase, running.position.batch_index)
        started = time.perf_counter()
        running.position.phase = self._split
        self._module.eval()
        try:
            with torch.no_grad():
                self._call("start")
                self._call("epoch_start")
                samples = self._batches()
                self._running.metric_log.weight = 1
                self._call("epoch_end")
        finally:
            for part, training in modes:
                part.training = training
            running.position.phase, running.position.batch_index = before
        sums = running.metric_log.take_sums()
        sums.samples = samples
        means = self._exchange.epoch(self._split, sums, stop=self._should_stop(), limit=running.should_stop)
        if not means.stop:  # a pass that was cut short has no mean to show
            running.epoch_metrics.update(means.values)
            running.callback_metrics.update(means.values)
            seconds = time.perf_counter() - started
            self._reporter.epoch(self._split, running.current_epoch, running.global_step, means, seconds)
            self._call("end")
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

    def _call(self, moment: str) -> None:
        name = f"on_{self._word}_{moment}"
        for hook in self._hooks.of(name) if self._split == "val" else self._hooks.of_module(name):
            hook()
