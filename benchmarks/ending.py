"""How soon the notebook is the user's again: after a rank's error, and after the stop button, on 4 ranks in the middle of a fit.

The peer is what a launcher makes of the same error: from the raise until `torchrun` has ended.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torchrun
from goal import Goal
from interleave import Benchmark, Measure
from kernel import fresh_kernel

STEP_SECONDS = 0.05
CELL = """%%gpulayer --nodes 2 --devices 2 --accelerator cpu --epochs 1000
import os, time
import torch
from pathlib import Path
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(8, 1)
train_set = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
train_loader = DataLoader(train_set, batch_size=4)
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps = []

def slow_step(*_):
    time.sleep({step})
    steps.append(1)
    if len(steps) == 40 and os.environ["RANK"] == "0":
        Path({path!r}).write_text(repr(time.time()))
    if len(steps) == 40 and os.environ["RANK"] == "1" and {fails}:
        Path({path!r}).write_text(repr(time.time()))
        raise ValueError("sample 17 is broken")

optimizer.register_step_post_hook(slow_step)
"""


@contextmanager
def contenders() -> Iterator[dict[str, Measure]]:
    with tempfile.TemporaryDirectory() as folder, fresh_kernel() as kernel:
        stamp = Path(folder, "stamp")
        kernel.run("%load_ext gpulayer_nb")
        kernel.run("%gpulayer up --nodes 2 --devices 2")

        def failure() -> float:
            if kernel.run_to_any_end(CELL.format(step=STEP_SECONDS, path=str(stamp), fails=True)):
                raise SystemExit("the cell was to fail")
            return time.time() - float(stamp.read_text())

        def stop() -> float:
            stamp.unlink(missing_ok=True)
            pressed: list[float] = []

            def press() -> None:
                while not stamp.exists():
                    time.sleep(0.01)
                pressed.append(time.time())
                os.kill(kernel.pid, signal.SIGINT)

            threading.Thread(target=press, daemon=True).start()
            kernel.run_to_any_end(CELL.format(step=STEP_SECONDS, path=str(stamp), fails=False))
            return time.time() - pressed[0]

        yield {"torchrun, a rank raises": torchrun.raise_to_end, "cell, a rank raises": failure, "cell, stop button": stop}


BENCHMARK = Benchmark(
    name="ending", unit="s", peer="torchrun, a rank raises", contenders=contenders,
    goals=(
        Goal(contender="cell, a rank raises", kind="value", limit=0.5, alarm=3.0),
        Goal(contender="cell, stop button", kind="value", limit=0.5 + STEP_SECONDS, alarm=3.0),
    ),
)  # fmt: skip
