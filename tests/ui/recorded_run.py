"""A made-up run as its records: loaded by the tests and, in notebooks, by the kernel."""

import math
from collections.abc import Iterator

from gpulayer_nb.records.record import (
    EpochMetrics,
    FitStarted,
    Progress,
    RankDone,
    RankFailed,
    RankOutput,
    RankStatus,
    Record,
    RunEnded,
    RunStarted,
    StepMetrics,
)

WORLD = 4


def started(run_id: str = "3f2a", world: int = WORLD, mode: str = "train") -> RunStarted:
    return RunStarted(
        time=1000.0, run_id=run_id, mode=mode, num_nodes=2, devices=world // 2, backend="gloo", accelerator="cpu", simulated=True,
        workers=("local",) * world, device_names=("cpu",) * world, pids=tuple(range(500, 500 + world)),
    )  # fmt: skip


def value(name: str, step: int) -> float:
    """Noisy, but the same every time."""
    noise = 0.1 * math.sin(step * 12.9898 + len(name))
    return math.exp(-step / 3000) + noise if "loss" in name else 1 - math.exp(-step / 2000) + noise


def recorded(
    *, epochs: int = 3, steps: int = 100, flush: int = 20, names: tuple[str, ...] = ("loss", "acc"), until: int | None = None,
    world: int = WORLD, output: str = "15000 images\n", run_id: str = "3f2a",
) -> Iterator[Record]:  # fmt: skip
    """A run that finishes, or, with `until`, fails on the last rank after so many steps."""
    time, done = 1002.0, 0
    yield started(run_id, world)
    yield FitStarted(time=time, max_epochs=epochs, batches_per_epoch=steps, val_batches=2, batch_size=32)
    for rank in range(world):
        yield RankOutput(time=time, rank=rank, stream="stdout", text=output)
    for epoch in range(epochs):
        for first in range(done + 1, done + steps + 1, flush):
            numbers = tuple(range(first, first + flush))
            time += 0.5
            values = {name: tuple(value(name, s) for s in numbers) for name in names}
            yield StepMetrics(time=time, steps=numbers, epochs=(epoch,) * flush, values=values, samples=128 * flush)
            yield Progress(
                time=time, phase="train", epoch=epoch, batch_index=first + flush - 2 - epoch * steps, batches=steps,
                global_step=numbers[-1], samples_per_second=256.0 * flush,
            )  # fmt: skip
            for rank in range(world):
                yield RankStatus(time=time, rank=rank, state="running", global_step=numbers[-1], memory_bytes=2**28)
            if until is not None and numbers[-1] >= until:
                yield RankOutput(time=time, rank=world - 1, stream="stdout", text="last line before the error\n")
                yield RankFailed(
                    time=time, rank=world - 1, error_type="ValueError", message="bad <sample> 17", traceback="ValueError: bad",
                    cell=4, cell_line=18, epoch=epoch, batch_index=first + flush - 1 - epoch * steps, global_step=numbers[-1],
                )  # fmt: skip
                yield RunEnded(time=time + 0.5, state="failed", message="Next: correct cell 4.")
                return
        done += steps
        means = {name: value(name, done) for name in names}
        yield EpochMetrics(time=time, split="train", epoch=epoch, global_step=done, values=means, samples=400, seconds=1.0)
        means = {f"val_{name}": v * 0.9 for name, v in means.items()}
        yield EpochMetrics(time=time + 0.2, split="val", epoch=epoch, global_step=done, values=means, samples=80, seconds=0.2)
    for rank in range(world):
        yield RankDone(time=time, rank=rank, state="finished")
    yield RunEnded(time=time + 1, state="finished")
