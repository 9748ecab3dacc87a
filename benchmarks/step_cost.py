"""Processor time of one optimizer step in one process: our loop, which logs the loss of every step, against a bare one.

No ranks, no notebook: what is left is what the loop itself costs. Processor time hardly depends on what else the machine does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import torch
from goal import Goal
from interleave import Benchmark, Measure
from torch import nn
from torch.utils.data import DataLoader
from workload import BATCH_SIZE, LEARNING_RATE, WORKLOADS

from gpulayer_nb.plan.topology import RankPlace
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.train.fit import fit
from gpulayer_nb.train.plain import PlainTask

WARM_UP, TIMED = 50, 400
WORKLOAD = WORKLOADS["mlp"]


class _Clock:
    """Processor time at the end of each step, taken by the optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._times: list[float] = []
        optimizer.register_step_post_hook(lambda *_: self._times.append(time.process_time()))

    def milliseconds_per_step(self) -> float:
        """The median step: single ones are lengthened by whatever else runs on the machine."""
        timed = self._times[WARM_UP : WARM_UP + TIMED]
        return 1000 * statistics.median(after - before for before, after in pairwise(timed))


def bare_loop() -> float:
    model = WORKLOAD.make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    clock, loss_fn = _Clock(optimizer), nn.CrossEntropyLoss()
    for _, (inputs, labels) in zip(range(WARM_UP + TIMED), _loader(), strict=False):
        optimizer.zero_grad()
        loss_fn(model(inputs), labels).backward()
        optimizer.step()
    return clock.milliseconds_per_step()


def our_loop() -> float:
    model = WORKLOAD.make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    clock = _Clock(optimizer)
    fit(
        PlainTask(model, nn.CrossEntropyLoss(), optimizer), _loader(), place=RankPlace(0, 0, 0), world_size=1, devices_per_node=1,
        options=FitOptions(max_steps=WARM_UP + TIMED, enable_checkpointing=False), device=torch.device("cpu"),
    )  # fmt: skip
    return clock.milliseconds_per_step()


def _loader() -> DataLoader[tuple[torch.Tensor, ...]]:
    return DataLoader(WORKLOAD.train_set(), batch_size=BATCH_SIZE, shuffle=True)


@contextmanager
def contenders() -> Iterator[dict[str, Measure]]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield {"bare loop": bare_loop, "Trainer": our_loop}
    finally:
        torch.set_num_threads(before)


BENCHMARK = Benchmark(
    name="step_cost", unit="ms", peer="bare loop", contenders=contenders,
    goals=(Goal(contender="Trainer", limit=1.2, alarm=1.6),),
)  # fmt: skip
