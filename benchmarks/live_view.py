"""What the live view costs a run: the same training cell with the view and with nothing in its place, in one kernel."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from goal import Goal
from interleave import Benchmark, Measure
from kernel import Kernel, fresh_kernel
from throughput import CELL
from workload import STEPS_PER_EPOCH, WORKLOADS

NAME = "mlp"
# Two ranks: on a machine with few cores four of them would measure who gets a core.
NOTHING = """
import gpulayer_nb.ui.choose as choose
class Nothing:
    def __init__(self, *_, **__): pass
    def show(self): pass
    def refresh(self): pass
    def finish(self): pass
    def dismiss(self): pass
view = choose.choose_view
"""
WITH, WITHOUT = "with the view", "without"


@contextmanager
def _runs() -> Iterator[tuple[Kernel, str, Path]]:
    workload = WORKLOADS[NAME]
    steps = workload.warm_up + workload.timed
    with tempfile.TemporaryDirectory() as folder, fresh_kernel() as kernel:
        answer = Path(folder, "answer")
        cell = CELL.format(epochs=-(-steps // STEPS_PER_EPOCH), steps=steps, more="", name=NAME, path=str(answer))
        kernel.run("%load_ext gpulayer_nb")
        kernel.run(NOTHING)
        yield kernel, cell.replace("--nodes 2 --devices 2", "--nodes 1 --devices 2"), answer


def _choose(kernel: Kernel, what: str) -> None:
    kernel.run(f"choose.choose_view = {'view' if what == WITH else 'Nothing'}")


@contextmanager
def _speeds() -> Iterator[dict[str, Measure]]:
    with _runs() as (kernel, cell, answer):

        def measure(what: str) -> float:
            _choose(kernel, what)
            answer.unlink(missing_ok=True)
            kernel.run(cell)
            return float(answer.read_text())

        measure(WITH)  # ranks up, everything imported
        yield {WITHOUT: lambda: measure(WITHOUT), WITH: lambda: measure(WITH)}


@contextmanager
def _processor_shares() -> Iterator[dict[str, Measure]]:
    with _runs() as (kernel, cell, _):
        process = psutil.Process(kernel.pid)

        def measure(what: str) -> float:
            _choose(kernel, what)
            before, began = process.cpu_times(), time.monotonic()
            kernel.run(cell)
            after, seconds = process.cpu_times(), time.monotonic() - began
            return 100 * (after.user + after.system - before.user - before.system) / seconds

        measure(WITH)
        yield {WITHOUT: lambda: measure(WITHOUT), WITH: lambda: measure(WITH)}


BENCHMARKS = (
    Benchmark(
        name="live_view", unit="steps/s", peer=WITHOUT, contenders=_speeds,
        goals=(Goal(contender=WITH, limit=0.99, alarm=0.9, at_least=True),),
    ),
    Benchmark(
        name="live_view_kernel", unit="percent of a core, the kernel's", peer=WITHOUT, contenders=_processor_shares,
        goals=(Goal(contender=WITH, limit=3.0, alarm=15.0, kind="added"),),
    ),
)  # fmt: skip
