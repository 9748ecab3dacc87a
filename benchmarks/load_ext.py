"""What `%load_ext gpulayer_nb` and the import add to a Python process that has imported IPython."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from goal import Goal
from interleave import Benchmark, Measure

SHELL = "from IPython.core.interactiveshell import InteractiveShell; shell = InteractiveShell.instance(); "
OURS = SHELL + "shell.run_line_magic('load_ext', 'gpulayer_nb'); import gpulayer_nb as glt"


def milliseconds(program: str) -> float:
    """From the start of a Python process to its end."""
    began = time.perf_counter()
    # its end is seen on the pipes: a wait with a time limit alone looks every 50 ms
    subprocess.run([sys.executable, "-c", program + "; import os; os._exit(0)"], check=True, capture_output=True, timeout=60)
    return 1000 * (time.perf_counter() - began)


@contextmanager
def contenders() -> Iterator[dict[str, Measure]]:
    milliseconds(OURS)  # the first import compiles the modules
    yield {"IPython": partial(milliseconds, SHELL + "pass"), "IPython and the extension": partial(milliseconds, OURS)}


BENCHMARK = Benchmark(
    name="load_ext", unit="ms", peer="IPython", contenders=contenders,
    goals=(Goal(contender="IPython and the extension", kind="added", limit=150, alarm=1500),),
)  # fmt: skip
