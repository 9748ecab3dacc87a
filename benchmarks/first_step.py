"""How long a user waits for the first optimizer step of 4 ranks: cold against cold, and in a notebook that is warm."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torchrun
from goal import Goal
from interleave import Benchmark, Measure
from kernel import Kernel, fresh_kernel

CELL = """%%gpulayer --nodes 2 --devices 2 --accelerator cpu --max-steps 1
import os, time
import torch
from pathlib import Path
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
train_set = TensorDataset(torch.randn(256, 64), torch.randint(10, (256,)))
train_loader = DataLoader(train_set, batch_size=16, shuffle=True)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def write_time(*_):
    if os.environ["RANK"] == "0":
        Path({path!r}).write_text(repr(time.time()))

optimizer.register_step_post_hook(write_time)
"""


@contextmanager
def contenders() -> Iterator[dict[str, Measure]]:
    """The launchers, a fresh kernel each time, and one kernel whose group is up."""
    with tempfile.TemporaryDirectory() as folder, fresh_kernel() as warm:
        stamp = Path(folder, "stamp")
        warm.run("%load_ext gpulayer_nb")
        warm.run(CELL.format(path=str(stamp)))

        def cold_kernel() -> float:
            with fresh_kernel() as cold:
                started = time.time()
                cold.run("%load_ext gpulayer_nb")
                return _first_step(cold, stamp) - started

        def warm_cell() -> float:
            started = time.time()
            return _first_step(warm, stamp) - started

        yield {
            "torchrun, cold": partial(torchrun.start_to_first_step, "first_step.py"),
            "accelerate, cold": partial(torchrun.start_to_first_step, "first_step_accelerate.py"),
            "lightning, cold": partial(torchrun.start_to_first_step, "first_step_lightning.py"),
            "kernel, cold": cold_kernel,
            "cell, warm": warm_cell,
        }


def _first_step(kernel: Kernel, stamp: Path) -> float:
    stamp.unlink(missing_ok=True)
    kernel.run(CELL.format(path=str(stamp)))
    return float(stamp.read_text())


BENCHMARK = Benchmark(
    name="first_step", unit="s", peer="torchrun, cold", contenders=contenders,
    goals=(
        Goal(contender="cell, warm", limit=1 / 60, alarm=1 / 15),
        Goal(contender="cell, warm", kind="value", limit=0.15, alarm=1.0),
        Goal(contender="kernel, cold", limit=0.55, alarm=1.2),
    ),
)  # fmt: skip
