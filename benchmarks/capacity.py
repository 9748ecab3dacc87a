"""`python benchmarks/capacity.py --table docs/SCALING.md`: what 128, 1,024 and 10,000 ranks would cost.

The constants are measured on this machine. What follows from them for many ranks is arithmetic: no run of that size was made.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from kernel import fresh_kernel
from messages import Reader
from run import machine
from scale import round_trip
from table import put_into
from torch.distributed import TCPStore

SIZES = (128, 1024, 10_000)
DEVICES = 8  # a node
READS, CLIENTS = 3000, 4
STATUS_HERTZ = 1.0  # one message a rank and second
# over all processes of the controller, two of them in the busiest; found by counting while engines joined
DESCRIPTORS_PER_ENGINE = 8


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Seconds each: `message` in the kernel, `store_read` of the store, `cell` what one more rank adds to a `%%ranks` cell."""

    message: float
    store_read: float
    cell: float


def _read_keys(port: int, started: multiprocessing.synchronize.Barrier) -> None:
    store = TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
    started.wait(timeout=60)
    for _ in range(READS):
        store.get("key")


def store_read() -> float:
    """Seconds of a store's time for one read, with several readers at once."""
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    server.set("key", "x" * 100)
    context = multiprocessing.get_context("spawn")
    started = context.Barrier(CLIENTS + 1)
    readers = [context.Process(target=_read_keys, args=(server.port, started)) for _ in range(CLIENTS)]
    for reader in readers:
        reader.start()
    started.wait(timeout=120)
    began = time.perf_counter()
    for reader in readers:
        reader.join(timeout=120)
    return (time.perf_counter() - began) / (READS * CLIENTS)


def cell() -> float:
    """Seconds that one more rank adds to the round trip of a cell: from 4 ranks to 32, on the cores of this machine."""
    small, large = 4, 32
    medians = {}
    for ranks in (small, large):
        with fresh_kernel() as kernel:
            kernel.run("%load_ext gpulayer_nb")
            round_trip(kernel, ranks)
            medians[ranks] = statistics.median(round_trip(kernel, ranks) for _ in range(5))
    return (medians[large] - medians[small]) / (large - small) / 1000


def rows(constants: Constants) -> list[list[str]]:
    """One line a cost, one column a size."""
    return [
        ["the kernel reads the ranks' status",
         *[f"{100 * size * STATUS_HERTZ * constants.message:.0f} % of a core" for size in SIZES]],
        ["a cell reaches all ranks and their answers are back", *[seconds(size * constants.cell) for size in SIZES]],
        ["gloo reads its peers' addresses from the store", *[seconds(size**2 * constants.store_read) for size in SIZES]],
        [f"connections of gloo on a node of {DEVICES}", *[f"{DEVICES * (size - 1):,}" for size in SIZES]],
        ["open files of the controller", *[f"{DESCRIPTORS_PER_ENGINE * size:,}" for size in SIZES]],
        ["a data set of 200 MB, one copy a node over 1 Gbit/s from the notebook",
         *[f"{size / DEVICES * 200e6 * 8 / 1e9:.0f} s" for size in SIZES]],
    ]  # fmt: skip


def seconds(number: float) -> str:
    """Two digits: nobody has measured at this size."""
    return f"{float(f'{number:.2g}'):,g} s"


def markdown(constants: Constants) -> str:
    where = machine()
    found = (
        f"A status message costs the kernel {1e6 * constants.message:.0f} µs, a read costs the store "
        f"{1e6 * constants.store_read:.0f} µs, one more rank adds {1e3 * constants.cell:.1f} ms to a `%%ranks` cell."
    )
    lines = [
        f"Measured on {where['day']}: {where['cores']} cores ({where['processor']}), load {os.getloadavg()[0]:.1f}. {found}",
        "",
        "| cost | " + " | ".join(f"{size:,} ranks" for size in SIZES) + " |",
        "|---|" + "---|" * len(SIZES),
        *["| " + " | ".join(row) + " |" for row in rows(constants)],
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, metavar="FILE", help="put the table between the marks of this document")
    chosen = parser.parse_args()
    reader = Reader(1024)
    constants = Constants(message=reader.microseconds() / 1e6, store_read=store_read(), cell=cell())
    text = markdown(constants)
    print(text)
    if chosen.table:
        put_into(chosen.table, text)


if __name__ == "__main__":
    main()
