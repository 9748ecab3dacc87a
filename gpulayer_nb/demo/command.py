"""`gpulayer demo`: its place on the command line. Loads torch only when the demo is run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    SubCommands = argparse._SubParsersAction[argparse.ArgumentParser]

SUMMARY = "train on handwritten digits with 2 simulated nodes × 2 devices, on this machine (under a minute)"


def add_to(subcommands: SubCommands) -> None:
    """Add `demo` to the command line."""
    subcommands.add_parser("demo", help=SUMMARY, description=SUMMARY).set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Train and report."""
    from gpulayer_nb.demo.quickstart import train_and_report

    return train_and_report()
