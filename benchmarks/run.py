"""`python benchmarks/run.py [NAME ...] [--rounds N] [--json FILE]`: us against peers, interleaved, as ratios."""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path
from typing import Any

import first_step
import run_view
import throughput
import torch
from interleave import Benchmark, Series, interleave

BENCHMARKS = {benchmark.name: benchmark for benchmark in (first_step.BENCHMARK, run_view.BENCHMARK, *throughput.BENCHMARKS)}


def main() -> None:
    """Run what was named, or all; print a table each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write every single measurement here")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    results = [measured(BENCHMARKS[name], chosen.rounds) for name in chosen.names or BENCHMARKS]
    if chosen.json:
        chosen.json.write_text(json.dumps({"machine": machine(), "rounds": chosen.rounds, "results": results}, indent=1) + "\n")


def measured(benchmark: Benchmark, rounds: int) -> dict[str, Any]:
    """Run one benchmark, print its table, return its plain form."""
    with benchmark.contenders() as contenders:
        series = interleave(contenders, rounds)
    peer_median = next(s.median for s in series if s.contender == benchmark.peer)
    print(f"\n{benchmark.name} ({benchmark.unit}), {rounds} rounds, load {os.getloadavg()[0]:.1f}")
    print(f"  {'':<18}{'median':>10}{'lowest':>10}{'highest':>10}{'ratio':>9}")
    for one in series:
        lowest, highest = one.spread
        print(
            f"  {one.contender:<18}{one.median:>10.3f}{lowest:>10.3f}{highest:>10.3f}{one.median / peer_median:>9.3f}", flush=True
        )
    return {"benchmark": benchmark.name, "unit": benchmark.unit, "peer": benchmark.peer,
            "contenders": [plain(one, peer_median) for one in series]}  # fmt: skip


def plain(one: Series, peer_median: float) -> dict[str, Any]:
    return {"contender": one.contender, "values": one.values, "median": one.median, "ratio": one.median / peer_median}


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


if __name__ == "__main__":
    main()
