"""`gpulayer launch SCRIPT`: its place on the command line."""

from __future__ import annotations

import argparse
from typing import Any

SUMMARY = "run a DDP script through torchrun on several (simulated) nodes"


def add_to(subcommands: Any) -> None:
    parser = subcommands.add_parser(
        "launch", help=SUMMARY, description=f"{SUMMARY}; the exit code is that of the first rank that failed", allow_abbrev=False,
        usage="gpulayer launch SCRIPT [options] [-- ARGUMENTS OF THE SCRIPT]",
    )  # fmt: skip
    parser.add_argument("script", metavar="SCRIPT", help="path of a Python script that torchrun could run")
    parser.add_argument("--nodes", default="1", metavar="N", help="nodes; on this machine they are simulated (default 1)")
    parser.add_argument("--devices", default="1", metavar="D", help="ranks on each node (default 1)")
    parser.add_argument("--accelerator", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--target", default="local", help="where to run (default local: this machine)")
    parser.add_argument(
        "--env", action="append", default=[], metavar="K=V", help="an environment variable of the ranks; may be repeated"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from gpulayer_nb.api.launch import request_for
    from gpulayer_nb.api.launching import exit_code
    from gpulayer_nb.errors import UsageError

    pairs = [text.partition("=") for text in options.env]
    for name, equals, value in pairs:
        if not name or not equals:
            raise UsageError(f"--env is {name}{equals}{value}; write NAME=VALUE.")
    return exit_code(
        request_for(
            options.script,
            nodes=options.nodes,
            devices=options.devices,
            args=options.rest,
            env={name: value for name, _, value in pairs},
            accelerator=options.accelerator,
            target=options.target,
        )
    )
