"""How long the planner takes: 128 workers of 8 devices for 1,024 ranks, beside 4 workers for 32 ranks.

Half of the workers have another torch, some are busy: the planner has to look at all of them. There is no peer with a planner.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from goal import Goal
from interleave import Benchmark, Measure

from gpulayer_nb.plan.placement import place
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.plan.workers import Worker


def worker(number: int, version: str, taken: dict[int, str]) -> Worker:
    name = f"node{number}"
    return Worker(
        key=f"{name}~{version}", name=name, host=name, address=f"10.0.{number // 250}.{number % 250}", torch_version=version,
        python_version="3.11", backends=("gloo",), devices=8, taken=taken,
    )  # fmt: skip


def milliseconds(nodes: int) -> Callable[[], float]:
    able = [worker(number, "2.13.0", {}) for number in range(nodes)]
    others = [worker(nodes + number, "2.12.1", {0: "ada@head"} if number % 3 else {}) for number in range(nodes)]
    topology = Topology(nodes, 8)

    def measure() -> float:
        began = time.perf_counter()
        place(topology, "auto", [*others, *able])
        return 1e3 * (time.perf_counter() - began)

    return measure


@contextmanager
def contenders() -> Iterator[dict[str, Measure]]:
    yield {"32 ranks": milliseconds(4), "1,024 ranks": milliseconds(128)}


BENCHMARK = Benchmark(
    name="planning", unit="ms", peer="32 ranks", contenders=contenders,
    goals=(Goal(contender="1,024 ranks", kind="value", limit=50.0, alarm=200.0),),
)  # fmt: skip
