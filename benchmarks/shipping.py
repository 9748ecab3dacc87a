"""A data set of 200 MB from the notebook to 4 ranks on this machine, each of which adds it up.

Each side is timed until every rank has read all of it. Peers: `DirectView.push`, what an ipyparallel user would do, with engines
that run already; and one copy of the data in memory that is added up once, the least that anybody can do.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from goal import Goal
from interleave import Benchmark, Measure
from kernel import HERE, Kernel, fresh_kernel

FLOATS = 50_000_000  # 200 MB as float32
MAKE = f"import torch; data = torch.randn({FLOATS})"
CHANGE = "data = data + 1"
USE = "%%ranks --nodes 2 --devices 2 --accelerator cpu\nfloat(data.sum())"


def _seconds(kernel: Kernel, cell: str) -> float:
    began = time.perf_counter()
    kernel.run(cell)
    return time.perf_counter() - began


@contextmanager
def direct_view() -> Iterator[Measure]:
    """A process with a DirectView on 4 engines of its own; each measurement pushes new data."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "IPYTHONDIR": folder, "OMP_NUM_THREADS": "1"}
        peer = subprocess.Popen(
            [sys.executable, str(HERE / "peers" / "direct_view_push.py"), str(FLOATS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=Path(folder),
        )  # fmt: skip

        def push() -> float:
            if peer.stdin is None or peer.stdout is None:
                raise SystemExit("the peer has no pipes")
            peer.stdin.write("push\n")
            peer.stdin.flush()
            answer = peer.stdout.readline()
            if not answer:
                raise SystemExit("the DirectView peer ended")
            return float(answer)

        try:
            yield push
        finally:
            peer.communicate(timeout=60)  # its standard input closes: it ends its engines


@contextmanager
def contenders() -> Iterator[dict[str, Measure]]:
    with fresh_kernel() as kernel, direct_view() as push:
        kernel.run("%load_ext gpulayer_nb")
        kernel.run(MAKE)
        kernel.run(USE)

        def changed() -> float:
            kernel.run(CHANGE)
            return _seconds(kernel, USE)

        def one_copy() -> float:
            return _seconds(kernel, "data.clone().sum()")

        yield {
            "DirectView.push": push,
            "%%ranks, new data": changed,
            "%%ranks, the same data": lambda: _seconds(kernel, USE),
            "one copy in memory": one_copy,
        }


BENCHMARK = Benchmark(
    name="shipping", unit="s", peer="DirectView.push", contenders=contenders,
    goals=(
        Goal(contender="%%ranks, new data", limit=0.1, alarm=0.2),
        Goal(contender="%%ranks, new data", limit=1.5, alarm=4.0, against="one copy in memory"),
    ),
)  # fmt: skip
