"""Optimizer steps per second on all GPUs of this machine, one rank each, against a bare loop under torchrun. Needs a GPU.

The network is big enough to keep a GPU busy and small enough that a loop which waits for it at every step would show.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
import torchrun
from goal import Goal
from interleave import Benchmark, Measure
from kernel import fresh_kernel

WARM_UP, TIMED, BATCH_SIZE, SAMPLES = 100, 1000, 256, 65_536
PRECISIONS = ("32", "bf16-mixed")
CELL = """%%gpulayer --nodes 1 --devices {devices} --accelerator cuda --epochs 1000 --max-steps {steps} --precision {precision}
import os, time
import torch
from pathlib import Path
from torch import nn
from torch.utils.data import DataLoader
from throughput_gpu import BATCH_SIZE, TIMED, WARM_UP, make_model, train_set

model = make_model()
train_loader = DataLoader(train_set(), batch_size=BATCH_SIZE, shuffle=True)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps, began = 0, 0.0

def note_time(*_):
    global steps, began
    steps += 1
    if steps in (WARM_UP, WARM_UP + TIMED):
        torch.cuda.synchronize()
        if steps == WARM_UP:
            began = time.time()
        elif os.environ["RANK"] == "0":
            Path({path!r}).write_text(repr(TIMED / (time.time() - began)))

optimizer.register_step_post_hook(note_time)
"""


def make_model() -> torch.nn.Module:
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)
    )  # fmt: skip


def train_set() -> torch.utils.data.TensorDataset:
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(SAMPLES, 1024, generator=generator)
    return torch.utils.data.TensorDataset(samples, torch.randint(10, (SAMPLES,), generator=generator))


@contextmanager
def contenders(precision: str) -> Iterator[dict[str, Measure]]:
    devices = torch.cuda.device_count()
    with tempfile.TemporaryDirectory() as folder, fresh_kernel() as kernel:
        answer = Path(folder, "answer")
        cell = CELL.format(devices=devices, steps=WARM_UP + TIMED, precision=precision, path=str(answer))
        kernel.run("%load_ext gpulayer_nb")

        def ours() -> float:
            answer.unlink(missing_ok=True)
            kernel.run(cell)
            return float(answer.read_text())

        yield {
            "bare DDP loop": lambda: torchrun.number("gpu_loop.py", precision, ranks=devices),
            "%%gpulayer": ours,
        }


BENCHMARKS = tuple(
    Benchmark(
        name="throughput_gpu" + ("" if precision == "32" else "_bf16"), unit="steps/s", peer="bare DDP loop",
        contenders=partial(contenders, precision),
        goals=(Goal(contender="%%gpulayer", limit=0.98, alarm=0.7, at_least=True),),
    )
    for precision in PRECISIONS
    if torch.cuda.is_available()
)  # fmt: skip
