"""Memory that a long run takes from every process it needs: a real run of 1e5 steps on 2 ranks, all streamed and drawn.

Memory that is a process's own (USS), after 2e4 steps and at the end; what is shown is the difference. At both moments rank 0
waits until all was measured. The server is the panel's feed with one subscriber, in a process of its own, looking all the time.
There is no peer: the kernel keeps every step's value, so it may grow; the others may not. Eight hours at 35 steps a second are
ten times as many steps: `long_run` replays them.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import panel_server
import psutil
from goal import Goal
from interleave import Benchmark, Measure
from kernel import Kernel, fresh_kernel

EARLY, LATE = 20_000, 100_000  # steps
SAMPLES = 8192
LIMIT_SECONDS = 1800.0
PARTS = {"controller": "gpulayer_nb.worker.controller", "supervisor": "gpulayer_nb.worker.supervisor", "ranks": "engine.zygote"}
CELL = f"""%%gpulayer --nodes 1 --devices 2 --accelerator cpu --epochs 1000 --max-steps {LATE}
import os, time, torch
from pathlib import Path
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(8, 1)
train_loader = DataLoader(TensorDataset(torch.randn({SAMPLES}, 8), torch.randn({SAMPLES}, 1)), batch_size=4, shuffle=True)
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
steps = 0

def wait_to_be_measured(*_):
    global steps
    steps += 1
    if steps in ({EARLY}, {LATE}) and os.environ["RANK"] == "0":
        marker = Path({{folder!r}}, str(steps))
        marker.touch()
        while marker.exists():
            time.sleep(0.1)

optimizer.register_step_post_hook(wait_to_be_measured)
"""


def _look(runtime: str) -> None:
    while True:
        panel_server.percent_of_a_core(Path(runtime), 2)


def _megabytes(kernel: Kernel, server: int | None) -> dict[str, float]:
    me = psutil.Process(kernel.pid)
    found = dict.fromkeys(PARTS, 0.0)
    for process in me.children(recursive=True):
        words = " ".join(process.cmdline())
        for part, word in PARTS.items():
            if word in words:
                found[part] += process.memory_full_info().uss / 2**20
    own = {"kernel": me, "panel's server": psutil.Process(server)}
    return {**found, **{name: process.memory_full_info().uss / 2**20 for name, process in own.items()}}


def grown() -> dict[str, float]:
    """Megabytes by which each part has grown between the two moments."""
    with tempfile.TemporaryDirectory() as runtime, fresh_kernel({"XDG_RUNTIME_DIR": runtime}) as kernel:
        kernel.run("%load_ext gpulayer_nb")
        kernel.run("%gpulayer up --nodes 1 --devices 2 --accelerator cpu")
        server = multiprocessing.get_context("spawn").Process(target=_look, args=(runtime,), daemon=True)
        server.start()
        cell = threading.Thread(target=kernel.run, args=(CELL.format(folder=runtime), LIMIT_SECONDS))
        cell.start()
        try:
            seen = [_once_there(Path(runtime, str(step)), cell, kernel, server.pid) for step in (EARLY, LATE)]
            cell.join(60)
        finally:
            server.kill()
            server.join(10)
    return {part: seen[1][part] - seen[0][part] for part in seen[0]}


def _once_there(marker: Path, cell: threading.Thread, kernel: Kernel, server: int | None) -> dict[str, float]:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not marker.exists():
        if not cell.is_alive() or time.monotonic() > deadline:
            raise SystemExit(f"the run has not come to step {marker.name}")
        time.sleep(0.2)
    time.sleep(3.0)  # for records that are on their way
    measured = _megabytes(kernel, server)
    marker.unlink()
    return measured


@contextmanager
def contenders() -> Iterator[dict[str, Measure]]:
    run = cache(grown)  # one run gives all numbers
    yield {part: lambda part=part: run()[part] for part in ("kernel", "ranks", "controller", "supervisor", "panel's server")}


BENCHMARK = Benchmark(
    name="endurance", unit="MB", peer=None, contenders=contenders, rounds=1,
    goals=tuple(
        Goal(contender=part, kind="value", limit=limit, alarm=4 * limit)
        for part, limit in (("kernel", 10), ("ranks", 4), ("controller", 4), ("supervisor", 2), ("panel's server", 4))
    ),
)  # fmt: skip
