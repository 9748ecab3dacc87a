"""`gpulayer controller start`, `gpulayer worker start|list|stop`: clusters of several machines, from a terminal."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from gpulayer_nb.errors import UsageError


def add_to(subcommands: Any) -> None:
    controller = subcommands.add_parser("controller", help="the controller of a cluster of several machines")
    actions = controller.add_subparsers(metavar="ACTION", required=True)
    start = actions.add_parser("start", help="start one here; shows what to type on the other machines")
    start.add_argument("--ip", default="127.0.0.1", help="address to listen on (default: this machine only)")
    start.add_argument("--name", default="cluster", help="name of the cluster, for --target (default: cluster)")
    start.add_argument("--ports", help="fixed ports, as 10101-10120, where a firewall needs them")
    start.add_argument("--location", help="name or address that leads here, if it is not --ip")
    start.set_defaults(run=_controller_start)
    worker = subcommands.add_parser("worker", help="machines that run ranks")
    actions = worker.add_subparsers(metavar="ACTION", required=True)
    start = actions.add_parser("start", help="this machine joins a cluster until this command ends")
    start.add_argument(
        "--controller",
        type=Path,
        metavar="FILE",
        help="the controller's connection file for engines (default: the one cluster here); -: from standard input",
    )
    start.add_argument("--devices", default="auto", help="ranks it can hold; auto: one per GPU, else 1")
    start.add_argument("--advertise-address", metavar="A", help="address that the other workers reach this machine by")
    start.add_argument("--name", help="how it is called (default: the machine's name)")
    start.add_argument("--accelerator", default="auto", help="auto, cpu, cuda or mps: what it lends")
    start.add_argument(
        "--mpi", action="store_true", help=argparse.SUPPRESS
    )  # ipyparallel's MPI launcher adds it to every command
    start.set_defaults(run=_worker_start)
    listing = actions.add_parser("list", help="the workers of a running cluster")
    listing.add_argument("--target", default="remote", help="which cluster: a name or a connection file")
    listing.set_defaults(run=_worker_list)
    stop = actions.add_parser("stop", help="a worker leaves its cluster; its process ends, wherever it is")
    stop.add_argument("name", help="the worker's name, as `gpulayer worker list` shows it")
    stop.add_argument("--target", default="remote", help="which cluster: a name or a connection file")
    stop.set_defaults(run=_worker_stop)


def _controller_start(options: argparse.Namespace) -> int:
    from gpulayer_nb.client.orphans import sweep
    from gpulayer_nb.link.ports import ephemeral_range
    from gpulayer_nb.records.cluster_folder import clusters_root
    from gpulayer_nb.worker.public_controller import PublicController, check_ports, ranges

    sweep(clusters_root())
    controller = PublicController(
        options.name, options.ip, options.location, check_ports(options.ports) if options.ports else None
    )
    try:
        controller.start()
        ports, (low, high) = ranges(controller.ports()), ephemeral_range()
        print(
            f"Cluster {controller.name} is up. On each machine that is to run ranks:\n\n"
            f"  gpulayer worker start --controller {controller.folder.engine_file}\n\n"
            f"Elsewhere copy that file first; it is the key to the cluster, keep it private.\n"
            f"In a notebook: `%%gpulayer --target {controller.name}` here, or with the path of a copy of\n"
            f"  {controller.folder.client_file}\n"
            f"Ports to open: {ports} here, {low}-{high} between workers (TCP).",
            flush=True,
        )
        code = controller.wait()
        if code:
            print("The controller has ended by itself. Last lines of its log:\n" + controller.folder.log_tail("controller.log"))
        return code
    finally:
        controller.end()


def _worker_start(options: argparse.Namespace) -> int:
    from gpulayer_nb.api.shape import whole_number
    from gpulayer_nb.client.orphans import sweep
    from gpulayer_nb.plan.accelerator import check_accelerator
    from gpulayer_nb.records.cluster_folder import clusters_root
    from gpulayer_nb.worker.joining import Wishes, join
    from gpulayer_nb.worker.public_controller import check_name

    sweep(clusters_root())
    devices = None if options.devices == "auto" else whole_number(options.devices, "--devices")
    if devices is not None and devices < 1:
        raise UsageError(f"--devices is {devices}; it is a whole number of at least 1, or auto.")
    wishes = Wishes(
        controller=options.controller or _the_one_here(),
        devices=devices,
        address=options.advertise_address,
        name=check_name(options.name) if options.name else None,
        accelerator=check_accelerator(options.accelerator),
    )
    return join(wishes, say=lambda text: print(text, flush=True))


def _the_one_here() -> Path | None:
    """The engines' file of the only cluster that runs on this machine; an ipyparallel launcher tells its workers otherwise."""
    from gpulayer_nb.client.targets import running_clusters

    running = running_clusters()
    if "IPP_CONNECTION_INFO" in os.environ or len(running) != 1:
        return None
    return running[0].engine_file


def _worker_list(options: argparse.Namespace) -> int:
    from gpulayer_nb.api.overview import workers_of

    print(workers_of(options.target))
    return 0


def _worker_stop(options: argparse.Namespace) -> int:
    from gpulayer_nb.api.ending_workers import end_worker

    print(end_worker(options.target, options.name))
    return 0
