"""What the kernel pays for one update of the live view: a run of a million steps against one of ten thousand."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from goal import Goal
from interleave import Benchmark, Measure

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import FitStarted, Progress, RunStarted, StepMetrics
from gpulayer_nb.ui.canvas_view import chart_facts
from gpulayer_nb.ui.curve_feed import CurveFeed
from gpulayer_nb.ui.message_line import message_line
from gpulayer_nb.ui.panel import ChartModel
from gpulayer_nb.ui.ranks_table import ranks_table
from gpulayer_nb.ui.status_strip import progress_bar, status_strip

METRICS = ("loss", "acc", "lr")
STEPS_PER_UPDATE = 200  # 1 000 steps per second at five updates a second
UPDATES = 50


class Watched:
    """A run that goes on, and all that its view computes."""

    def __init__(self, steps: int) -> None:
        self._history = RunHistory()
        names = ("local",) * 4
        self._history.apply(
            RunStarted(time=time.time(), run_id="bench", mode="train", num_nodes=2, devices=2, backend="gloo", accelerator="cpu",
                       simulated=True, workers=names, device_names=("cpu",) * 4, pids=(1, 2, 3, 4))
        )  # fmt: skip
        self._history.apply(FitStarted(time=time.time(), max_epochs=10, batches_per_epoch=10**6, val_batches=2, batch_size=32))
        self._done = 0
        self._feed, self._chart = CurveFeed(self._history), ChartModel(self._history)
        while self._done < steps:
            self._step(10_000)
        self._feed.whole()
        self._chart.read()

    def milliseconds(self) -> float:
        """Processor time of one update, without the sending."""
        spent = 0.0
        for _ in range(UPDATES):
            self._step(STEPS_PER_UPDATE)
            began = time.process_time()
            self._feed.news()
            chart_facts(self._history, self._chart.outline())
            for part in (status_strip, progress_bar, message_line, ranks_table):
                part(self._history)
            spent += time.process_time() - began
        return 1000 * spent / UPDATES

    def _step(self, count: int) -> None:
        steps = tuple(range(self._done + 1, self._done + count + 1))
        self._done += count
        values = {name: tuple(math.exp(-step / 1e5) for step in steps) for name in METRICS}
        now = time.time()
        self._history.apply(StepMetrics(time=now, steps=steps, epochs=(0,) * count, values=values, samples=128 * count))
        self._history.apply(
            Progress(time=now, phase="train", epoch=0, batch_index=self._done - 1, batches=10**6, global_step=self._done,
                     samples_per_second=1e5)
        )  # fmt: skip


@contextmanager
def _runs() -> Iterator[dict[str, Measure]]:
    yield {"1e4 steps": Watched(10_000).milliseconds, "1e6 steps": Watched(1_000_000).milliseconds}


BENCHMARK = Benchmark(name="run_view", unit="ms of processor time per update", peer="1e4 steps", contenders=_runs,
                      goals=(Goal(contender="1e6 steps", limit=1.5, alarm=2.0),))  # fmt: skip
