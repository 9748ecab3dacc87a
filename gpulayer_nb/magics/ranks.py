"""`%%ranks`: run any cell on the ranks."""

from __future__ import annotations

import argparse
from typing import Any

from gpulayer_nb.api.current import namespace, session
from gpulayer_nb.api.ranks_cell import run_ranks_cell
from gpulayer_nb.api.shape import target_for, topology_for
from gpulayer_nb.client.run_request import RunRequest
from gpulayer_nb.magics.cell import Cell, read_cell
from gpulayer_nb.magics.options import chosen_ranks, environment, ranks_parser


def run_on_ranks(shell: Any, line: str, cell: str) -> None:
    """The cell runs on the ranks; the values that its last line has there are shown."""
    options = ranks_parser().read(line)
    values = run_ranks_cell(session(), _request(options, read_cell(shell, "%%ranks", line, cell)))
    if options.save_as:
        namespace()[options.save_as] = values


def _request(options: argparse.Namespace, cell: Cell) -> RunRequest:
    topology = topology_for(
        options.nodes, options.devices, session().topology, accelerator=options.accelerator, default_devices=2
    )
    return RunRequest(
        mode="ranks",
        topology=topology,
        accelerator=options.accelerator,
        target=target_for(options.target, session().target),
        source=cell.source,
        python=cell.python,
        cell=cell.number,
        only_ranks=chosen_ranks(options.ranks, topology),
        collect=options.save_as is not None,
        sync=not options.no_sync,
        timeout_seconds=options.timeout,
        env=environment(options),
    )
