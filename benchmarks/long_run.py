"""Memory that the kernel's history of a run takes: 1e6 steps of 3 metrics, about eight hours at 35 steps a second, by replay.

The history keeps every value, as 16 bytes, so it grows with the steps and with nothing else; the ratio is to a run of 1e4 steps.
"""

from __future__ import annotations

import gc
import math
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from goal import Goal
from interleave import Benchmark, Measure

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import FitStarted, Progress, RankStatus, StepMetrics
from gpulayer_nb.ui.curve_feed import CurveFeed

METRICS = ("loss", "acc", "lr")
BATCH = 100  # steps a message; status of 4 ranks after each


def megabytes(steps: int) -> float:
    """What history and curves hold after a replay."""
    tracemalloc.start()
    history = RunHistory()
    history.apply(FitStarted(time=0.0, max_epochs=10, batches_per_epoch=10**5, batch_size=32))
    feed = CurveFeed(history)
    for first in range(1, steps + 1, BATCH):
        numbers = tuple(range(first, first + BATCH))
        values = {name: tuple(math.exp(-number / 1e5) for number in numbers) for name in METRICS}
        epochs = tuple(number // 10**5 for number in numbers)
        now = time.time()
        history.apply(StepMetrics(time=now, steps=numbers, epochs=epochs, values=values, samples=128 * BATCH))
        history.apply(Progress(time=now, phase="train", epoch=epochs[-1], batch_index=0, batches=10**5, global_step=numbers[-1]))
        for rank in range(4):
            history.apply(RankStatus(time=now, rank=rank, state="running", global_step=numbers[-1], memory_bytes=2**28))
        feed.news()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / 2**20


@contextmanager
def contenders() -> Iterator[dict[str, Measure]]:
    yield {"1e4 steps": partial(megabytes, 10**4), "1e6 steps": partial(megabytes, 10**6)}


BENCHMARK = Benchmark(
    name="long_run", unit="MB", peer="1e4 steps", contenders=contenders, rounds=1,
    goals=(Goal(contender="1e6 steps", kind="value", limit=100, alarm=200),),
)  # fmt: skip
