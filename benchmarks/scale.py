"""How the round trip of a `%%ranks` cell grows with the number of ranks, all on this machine: linear, or worse?

There is no peer: the ratio is to 4 ranks, and 64 ranks may take 16 times as long. The ranks have torch and a process group of
gloo, no model. A cell with an all-reduce is timed, in a group that is up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from time import perf_counter

from goal import Goal
from interleave import Benchmark, Measure
from kernel import Kernel, fresh_kernel

SIZES = (4, 8, 16, 32, 64)
CELL = "%%ranks --nodes 2 --devices {devices} --accelerator cpu\nx = torch.ones(1); dist.all_reduce(x); x.item()"


def round_trip(kernel: Kernel, ranks: int) -> float:
    """Milliseconds of one cell with an all-reduce."""
    began = perf_counter()
    kernel.run(CELL.format(devices=ranks // 2))
    return 1000 * (perf_counter() - began)


@contextmanager
def contenders() -> Iterator[dict[str, Measure]]:
    with ExitStack() as kernels:
        measures: dict[str, Measure] = {}
        for ranks in SIZES:
            kernel = kernels.enter_context(fresh_kernel())
            kernel.run("%load_ext gpulayer_nb")
            round_trip(kernel, ranks)  # starts them
            measures[f"{ranks} ranks"] = partial(round_trip, kernel, ranks)
        yield measures


BENCHMARK = Benchmark(
    name="scale", unit="ms", peer=f"{SIZES[0]} ranks", contenders=contenders,
    goals=(Goal(contender=f"{SIZES[-1]} ranks", limit=SIZES[-1] / SIZES[0], alarm=2 * SIZES[-1] / SIZES[0]),),
)  # fmt: skip
