"""`python benchmarks/run.py [NAME ...]`: us against peers, interleaved, as ratios."""

from __future__ import annotations

import argparse
import compileall
import datetime
import importlib.util
import json
import os
import platform
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ending
import endurance
import first_step
import live_view
import load_ext
import long_run
import memory
import messages
import panel_server
import planning
import plot
import remote_shipping
import run_view
import scale
import shipping
import step_cost
import table
import throughput
import throughput_gpu
import torch
from goal import Goal
from interleave import Benchmark, Series, interleave

BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        first_step.BENCHMARK, *throughput.BENCHMARKS, step_cost.BENCHMARK, shipping.BENCHMARK, remote_shipping.BENCHMARK,
        memory.BENCHMARK, load_ext.BENCHMARK, ending.BENCHMARK, run_view.BENCHMARK, *live_view.BENCHMARKS, long_run.BENCHMARK,
        endurance.BENCHMARK, messages.BENCHMARK, planning.BENCHMARK, scale.BENCHMARK, panel_server.BENCHMARK,
        *throughput_gpu.BENCHMARKS,
    )
}  # fmt: skip


def main() -> None:
    """Run what was named, or all; print a table each. Exit code 1 if `--alarm` is given and a bound is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write every single measurement here")
    parser.add_argument("--keep", type=Path, nargs="+", default=[], metavar="FILE",
                        help="what these files of --json have is taken from them and not measured again")  # fmt: skip
    parser.add_argument("--without", nargs="+", default=[], metavar="CONTENDER",
                        help="leave these out, and the goals against them: more rounds of the others")  # fmt: skip
    parser.add_argument("--plot", type=Path, metavar="DIR", help="also draw a picture of each benchmark")
    parser.add_argument(
        "--table",
        type=Path,
        metavar="FILE",
        help="also put the numbers into the tables of this document; others of the same day stay",
    )
    parser.add_argument("--alarm", action="store_true", help="fail if a number is beyond what a noisy machine explains")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    have_bytecode()
    kept = kept_results(chosen.keep)
    report: dict[str, Any] = {"machine": machine(), "results": []}
    for name in chosen.names or BENCHMARKS:
        report["results"].append(kept.get(name) or measured(BENCHMARKS[name], chosen.rounds, chosen.without))
        if chosen.json:  # after each, so that nothing is lost if a later one fails
            chosen.json.write_text(json.dumps(report, indent=1) + "\n")
    if chosen.plot:
        plot.draw(report, chosen.plot)
    if chosen.table:
        table.update(chosen.table, table.markdown(report))
    alarms = [goal for result in report["results"] for goal in result["goals"] if goal["alarming"]]
    if chosen.alarm and alarms:
        raise SystemExit("\n".join(f"{goal['contender']}: {goal['measured']:.3g}, bound {goal['alarm']:.3g}" for goal in alarms))


def kept_results(files: list[Path]) -> dict[str, Any]:
    """By name; all from a machine like this one."""
    found: dict[str, Any] = {}
    for file in files:
        report = json.loads(file.read_text())
        here = machine()
        other = [name for name in ("cores", "processor", "python", "torch", "day") if report["machine"][name] != here[name]]
        if other:
            raise SystemExit(f"{file} was not measured here and today: it differs in {', '.join(other)}")
        found.update((result["benchmark"], result) for result in report["results"])
    return found


def have_bytecode() -> None:
    """As an installed package has it, and as the peers' packages have it here: pip compiles what it installs."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    package = importlib.util.find_spec("gpulayer_nb")
    if package and package.submodule_search_locations:
        compileall.compile_dir(package.submodule_search_locations[0], quiet=1)


def measured(benchmark: Benchmark, rounds: int, without: Collection[str] = ()) -> dict[str, Any]:
    """Run one benchmark, print its table, return its plain form."""
    rounds = min(rounds, benchmark.rounds or rounds)
    load = os.getloadavg()[0]
    with benchmark.contenders() as contenders:
        asked = {name: measure for name, measure in contenders.items() if name not in without}
        series = {one.contender: one for one in interleave(asked, rounds)}
    ratios = {name: one.median / series[benchmark.peer].median for name, one in series.items()} if benchmark.peer else {}
    print(f"\n{benchmark.name} ({benchmark.unit}), {rounds} rounds, load before {load:.1f}")
    print(f"  {'':<30}{'median':>10}{'lowest':>10}{'highest':>10}{'ratio':>9}")
    for one in series.values():
        lowest, highest = one.spread
        print(
            f"  {one.contender:<30}{one.median:>10.3f}{lowest:>10.3f}{highest:>10.3f}{table.ratio(ratios.get(one.contender)):>9}"
        )
    goals = [
        _verdict(goal, benchmark, series)
        for goal in benchmark.goals
        if {goal.contender, _against(goal, benchmark)} <= set(series)
    ]
    for goal in goals:
        words = goal["text"] if goal["against"] is None else f"{goal['text']} of {goal['against']}"
        reached = "reached" if goal["reached"] else "NOT reached"
        print(f"  goal: {goal['contender']} {words}: {goal['measured']:.3g}, {reached}", flush=True)
    return {
        "benchmark": benchmark.name, "unit": benchmark.unit, "peer": benchmark.peer, "load": load, "goals": goals,
        "contenders": [
            {"contender": one.contender, "values": one.values, "median": one.median, "ratio": ratios.get(one.contender)}
            for one in series.values()
        ],
    }  # fmt: skip


def _verdict(goal: Goal, benchmark: Benchmark, series: dict[str, Series]) -> dict[str, Any]:
    against = _against(goal, benchmark)
    number = goal.measured(series[goal.contender].median, series[against].median)
    return {**asdict(goal), "against": None if goal.kind == "value" else against, "measured": number, "text": goal.text(),
            "reached": goal.reached(number), "alarming": goal.alarming(number)}  # fmt: skip


def _against(goal: Goal, benchmark: Benchmark) -> str:
    return goal.against or benchmark.peer or goal.contender  # where there is no peer, goals are values


def machine() -> dict[str, Any]:
    return {
        "day": datetime.date.today().isoformat(),
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "load": os.getloadavg()[0],
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
