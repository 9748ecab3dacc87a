"""Optimizer steps per second with every step's loss averaged, streamed and drawn, against a bare loop that does none of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torchrun
from goal import Goal
from interleave import Benchmark, Measure
from kernel import fresh_kernel
from workload import STEPS_PER_EPOCH, WORKLOADS

CELL = """%%gpulayer --nodes 2 --devices 2 --accelerator cpu --epochs {epochs} --max-steps {steps} {more}
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
        epochs = -(-steps * workload.accumulate // STEPS_PER_EPOCH)
        more = f"--accumulate {workload.accumulate} --precision {workload.precision}"
        cell = CELL.format(epochs=epochs, steps=steps, more=more, name=name, path=str(answer))
        kernel.run("%load_ext gpulayer_nb")

        def our_steps_per_second() -> float:
            answer.unlink(missing_ok=True)
            kernel.run(cell)
            return float(answer.read_text())

        peers = {"bare DDP loop": "plain_loop.py", "Trainer, no notebook": "trainer_loop.py"}
        if _is_plain(name):
            peers |= {"Lightning, sync_dist": "lightning_loop.py", "Accelerate, gather": "accelerate_loop.py"}
        scripts: dict[str, Measure] = {peer: partial(torchrun.steps_per_second, script, name) for peer, script in peers.items()}
        yield {**scripts, "%%gpulayer": our_steps_per_second}


def _is_plain(name: str) -> bool:
    """Whether every batch is a step in full precision: the other peers are written for that."""
    return WORKLOADS[name].accumulate == 1 and WORKLOADS[name].precision == "32"


def _benchmark(name: str) -> Benchmark:
    goals: tuple[Goal, ...] = (
        Goal(contender="%%gpulayer", limit=0.98, alarm=0.7, at_least=True),
        Goal(contender="Trainer, no notebook", limit=0.98, alarm=0.7, at_least=True),
    )
    if _is_plain(name):
        goals += (
            Goal(contender="%%gpulayer", limit=2.2, alarm=1.3, at_least=True, against="Lightning, sync_dist"),
            Goal(contender="%%gpulayer", limit=1.2, alarm=0.8, at_least=True, against="Accelerate, gather"),
        )
    return Benchmark(
        name=f"throughput_{name}", unit="steps/s", peer="bare DDP loop", contenders=partial(contenders, name), goals=goals
    )


BENCHMARKS = tuple(_benchmark(name) for name in WORKLOADS)
