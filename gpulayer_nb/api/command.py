"""`gpulayer runs`, `gpulayer stop`, `gpulayer stuck`: the runs of this machine, from a terminal."""

from __future__ import annotations

import argparse
from typing import Any


def add_to(subcommands: Any) -> None:
    runs = subcommands.add_parser("runs", help="list the newest runs on this machine")
    runs.set_defaults(run=_runs)
    stop = subcommands.add_parser("stop", help="stop a run after the step in hand; again goes one stage further")
    stop.add_argument("run_id", nargs="?", help="the run's id or its end (default: the newest)")
    stop.set_defaults(run=_stop)
    stuck = subcommands.add_parser("stuck", help="where every rank of a run is, and who waits for whom")
    stuck.add_argument("run_id", nargs="?", help="the run's id or its end (default: the newest)")
    stuck.set_defaults(run=_stuck)


def _runs(options: argparse.Namespace) -> int:
    from gpulayer_nb.api import attach

    print(attach.table())
    return 0


def _stop(options: argparse.Namespace) -> int:
    from gpulayer_nb.api import attach

    print(attach.stop(attach.find(options.run_id)))
    return 0


def _stuck(options: argparse.Namespace) -> int:
    from gpulayer_nb.api import attach

    print(attach.where(attach.find(options.run_id)))
    return 0
