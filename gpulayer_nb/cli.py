"""The command `gpulayer`, also `jupyter gpulayer`.

Runs in a terminal. Owns the list of subcommands and what an error looks like there; each subcommand is a module with
`add_to(subcommands)` that imports nothing heavy before it is chosen.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import gpulayer_nb
from gpulayer_nb.api import cluster_command as cluster
from gpulayer_nb.api import command as runs
from gpulayer_nb.api import launch_command as launch
from gpulayer_nb.demo import command as demo
from gpulayer_nb.doctor import command as doctor
from gpulayer_nb.errors import GpuLayerError

SUBCOMMANDS = (demo, cluster, launch, runs, doctor)
STOPPED_EXIT_CODE = 130  # what shells give a program that Ctrl-C ended


def parser() -> argparse.ArgumentParser:
    """The whole command line; every subcommand sets `run`, a function of the parsed arguments that returns the exit code."""
    whole = argparse.ArgumentParser(prog="gpulayer", description="Data-parallel PyTorch training from notebooks.")
    whole.add_argument("--version", action="version", version=f"gpulayer-nb {gpulayer_nb.__version__}")
    subcommands = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for subcommand in SUBCOMMANDS:
        subcommand.add_to(subcommands)
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit code; a user's mistake is one line on stderr and exit code 1."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    end = words.index("--") if "--" in words else len(words)
    chosen = parser().parse_args(words[:end], argparse.Namespace(rest=words[end + 1 :]))  # the rest is for a program we start
    try:
        code: int = chosen.run(chosen)
    except GpuLayerError as error:
        print(f"gpulayer: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print(f"gpulayer: {str(stop) or 'stopped'}", file=sys.stderr)
        return STOPPED_EXIT_CODE
    return code
