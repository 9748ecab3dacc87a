"""`%%gpulayer`: train from a cell."""

from __future__ import annotations

import argparse
from typing import Any

from gpulayer_nb.api.attaching import detach
from gpulayer_nb.api.current import namespace, session
from gpulayer_nb.api.execute import execute
from gpulayer_nb.api.resuming import with_folder
from gpulayer_nb.api.shape import target_for, topology_for
from gpulayer_nb.client.run_request import RunRequest
from gpulayer_nb.magics.cell import Cell, read_cell
from gpulayer_nb.magics.options import environment, training_parser
from gpulayer_nb.records.fit_names import FitNames
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.ui.choose import choose_view


def train(shell: Any, line: str, cell: str) -> None:
    """The cell runs on every rank, then its model is trained there."""
    options = training_parser().read(line)
    request = _request(options, read_cell(shell, "%%gpulayer", line, cell))
    run = detach(request) if request.detach else execute(session(), request, choose_view).run
    if request.detach:
        print(f"Run {run.run_id} goes on by itself. Next: `%gpulayer attach`, `%gpulayer stop`, or `%gpulayer runs`.")
    if options.save_as:
        namespace()[options.save_as] = run


def _request(options: argparse.Namespace, cell: Cell) -> RunRequest:
    present = session().topology
    return RunRequest(
        mode="train",
        topology=topology_for(options.nodes, options.devices, present, accelerator=options.accelerator, default_devices=2),
        accelerator=options.accelerator,
        target=target_for(options.target, session().target),
        source=cell.source,
        python=cell.python,
        cell=cell.number,
        options=with_folder(_fit_options(options), None),
        names=FitNames(model=options.model, train_loader=options.loader, val_loader=options.val_loader),
        sync=not options.no_sync,
        detach=options.detach,
        group_timeout_seconds=options.timeout,
        env=environment(options),
    )


def _fit_options(options: argparse.Namespace) -> FitOptions:
    """Without --epochs a run that has another limit goes on until that one."""
    limited = options.max_steps is not None or options.max_time is not None
    return FitOptions(
        max_epochs=options.epochs if options.epochs is not None else (None if limited else 1),
        max_steps=options.max_steps,
        max_time_seconds=options.max_time,
        precision=options.precision,
        accumulate_grad_batches=options.accumulate,
        gradient_clip_val=options.clip,
        sync_batchnorm=options.sync_batchnorm,
        find_unused_parameters=options.find_unused_parameters,
        seed=options.seed,
        checkpoint_dir=options.checkpoint_dir,
        resume=options.resume,
    )
