"""Memory of 4 idle ranks that have torch, against 4 plain Python processes that have imported it.

Fair because both have imported what a DDP script needs; ours have a process group besides. Proportional set size: a page that
several processes share counts once, divided among them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from goal import Goal
from interleave import Benchmark, Measure
from kernel import fresh_kernel
from workload import RANKS

IMPORTS = "import torch, torch.distributed, torch.nn.parallel, torch.optim, torch.utils.data, torch._dynamo"
CELL = """%%ranks --nodes 2 --devices 2 --accelerator cpu
dist.all_reduce(torch.ones(1))
"""


def _megabytes(processes: list[psutil.Process]) -> float:
    return sum(process.memory_full_info().pss for process in processes) / 2**20


def plain_processes() -> float:
    """Megabytes of 4 Python processes that have imported torch and wait."""
    program = f"{IMPORTS}; print(1, flush=True); import sys; sys.stdin.read()"
    children = [
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(RANKS)
    ]
    try:
        for child in children:
            if child.stdout is None or not child.stdout.readline():
                raise SystemExit("a process did not import torch")
        return _megabytes([psutil.Process(child.pid) for child in children])
    finally:
        for child in children:
            child.communicate(timeout=30)


@contextmanager
def contenders() -> Iterator[dict[str, Measure]]:
    with fresh_kernel() as kernel:
        kernel.run("%load_ext gpulayer_nb")
        kernel.run(CELL)
        below = psutil.Process(kernel.pid).children(recursive=True)
        zygotes = [process for process in below if "gpulayer_nb.engine.zygote" in process.cmdline()]
        pids = {process.pid for process in zygotes}
        ranks = [process for process in zygotes if process.ppid() in pids]
        if len(ranks) != RANKS:
            raise SystemExit(f"{len(ranks)} ranks found, {RANKS} expected")
        yield {
            "4 processes": plain_processes,
            "4 ranks": lambda: _megabytes(ranks),
            "ranks, supervisor, controller": lambda: _megabytes(below),
        }


BENCHMARK = Benchmark(
    name="memory", unit="MB", peer="4 processes", contenders=contenders, rounds=3,
    goals=(Goal(contender="4 ranks", limit=0.4, alarm=0.5),),
)  # fmt: skip
