"""Times training steps on a rank: forward, backward, the all-reduce of every bucket, optimizer.

Runs on every rank at once, inside a cell. Owns the measurement. Must not know how it is drawn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Interval = tuple[float, float]
BUCKET_MB = 1.0
WARM_STEPS = 3  # DDP arranges its buckets anew after the first


@dataclass(frozen=True)
class StepTimes:
    """One step of one rank in seconds of the machine's clock, which its processes share. `buckets` are (number, start, end)."""

    forward: Interval
    backward: Interval
    optimizer: Interval
    buckets: tuple[tuple[int, float, float], ...]

    def in_milliseconds_from(self, zero: float) -> StepTimes:
        def moved(interval: Interval) -> Interval:
            return 1e3 * (interval[0] - zero), 1e3 * (interval[1] - zero)

        return StepTimes(
            moved(self.forward),
            moved(self.backward),
            moved(self.optimizer),
            tuple((number, *moved((start, end))) for number, start, end in self.buckets),
        )


class TimedSteps(list[StepTimes]):
    """The steps of one rank; in a cell's output one short line."""

    def __repr__(self) -> str:
        lengths = sorted(step.optimizer[1] - step.forward[0] for step in self)
        return f"{len(self)} steps of {1e3 * lengths[len(self) // 2]:.0f} ms" if self else "no steps"


def time_steps(
    model: Any, inputs: Any, targets: Any, loss_fn: Callable[[Any, Any], Any], *, overlap: bool, steps: int = 8,
    bucket_mb: float = BUCKET_MB,
) -> TimedSteps:  # fmt: skip
    """Trains `model` for some steps on this rank's batch; call it on every rank.

    Args:
        overlap: let DDP send each bucket during the backward pass; otherwise average by hand after it, parameter by parameter.
        bucket_mb: size of DDP's buckets, in MiB.
    """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    world, clock = dist.get_world_size(), time.monotonic
    flights: list[tuple[int, float, float]] = []

    def timed_hook(_, bucket):  # type: ignore[no-untyped-def]  # DDP reads the annotations and would refuse Any
        number, start = bucket.index(), clock()

        def landed(future: Any) -> Any:
            flights.append((number, start, clock()))
            return future.value()[0]

        return dist.all_reduce(bucket.buffer().div_(world), async_op=True).get_future().then(landed)

    def average_by_hand() -> None:
        for number, parameter in enumerate(reversed(list(model.parameters()))):
            start = clock()
            dist.all_reduce(parameter.grad.div_(world))
            flights.append((number, start, clock()))

    trained = model
    if overlap:
        trained = DistributedDataParallel(model, bucket_cap_mb=bucket_mb)
        trained.register_comm_hook(None, timed_hook)
    optimizer = torch.optim.SGD(trained.parameters(), lr=1e-3)
    times = []
    for _ in range(WARM_STEPS + steps):
        optimizer.zero_grad()
        dist.barrier()
        flights.clear()
        began = clock()
        loss = loss_fn(trained(inputs), targets)
        forward_done = clock()
        loss.backward()
        backward_done = clock()
        if not overlap:
            average_by_hand()
        averaged = clock()
        optimizer.step()
        times.append(StepTimes((began, forward_done), (forward_done, backward_done), (averaged, clock()), tuple(sorted(flights))))
    return TimedSteps(times[WARM_STEPS:])
