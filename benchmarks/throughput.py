"""Optimizer steps per second with every step's loss averaged, streamed and drawn, against a bare loop that does none of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torchrun
from interleave import Benchmark, Measure
from kernel import fresh_kernel
from workload import STEPS_PER_EPOCH, WORKLOADS

CELL = """%%gpulayer --nodes 2 --devices 2 --accelerator cpu --epochs {epochs} --max-steps {steps}
import os, time
import torch
from pathlib import Path
from torch import nn
from torch.utils.data import DataLoader
from workload import BATCH_SIZE, LEARNING_RATE, WORKLOADS

workload = WORKLOADS[{name!r}]
model = workload.make_model()
train_loader = DataLoader(workload.train_set(), batch_size=BATCH_SIZE, shuffle=True)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
times = []

def note_time(*_):
    times.append(time.time())
    if len(times) == workload.warm_up + workload.timed and os.environ["RANK"] == "0":
        seconds = times[-1] - times[workload.warm_up - 1]
        Path({path!r}).write_text(repr(workload.timed / seconds))

optimizer.register_step_post_hook(note_time)
"""


@contextmanager
def contenders(name: str) -> Iterator[dict[str, Measure]]:
    """The bare loop under torchrun, and a cell in a kernel whose group is up."""
    workload = WORKLOADS[name]
    steps = workload.warm_up + workload.timed
    with tempfile.TemporaryDirectory() as folder, fresh_kernel() as kernel:
        answer = Path(folder, "answer")
        cell = CELL.format(epochs=-(-steps // STEPS_PER_EPOCH), steps=steps, name=name, path=str(answer))
        kernel.run("%load_ext gpulayer_nb")

        def our_steps_per_second() -> float:
            answer.unlink(missing_ok=True)
            kernel.run(cell)
            return float(answer.read_text())

        yield {"bare DDP loop": partial(torchrun.steps_per_second, name), "%%gpulayer": our_steps_per_second}


BENCHMARKS = tuple(
    Benchmark(name=f"throughput_{name}", unit="steps/s", peer="bare DDP loop", contenders=partial(contenders, name))
    for name in WORKLOADS
)
