"""`%gpulayer up --target slurm` and `--target ssh`: what was typed becomes wishes for a cluster, or a refusal. Starts nothing."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

from gpulayer_nb.api.shape import whole_number
from gpulayer_nb.client.provision.slurm_job import sbatch_options
from gpulayer_nb.client.provision.ssh_command import hosts
from gpulayer_nb.client.provision.wishes import WAIT_SECONDS, SlurmWishes, SshWishes, Wishes
from gpulayer_nb.client.targets import running_clusters
from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.topology import Topology

SLURM, SSH = "slurm", "ssh"


def wishes_for(target: str, options: argparse.Namespace, words: Sequence[str]) -> Wishes | None:
    """None if `target` is none of ours to bring up: there is such a cluster already, or it is another kind.

    Args:
        options: of `%gpulayer up`.
        words: what is left of the line; sbatch's options.

    Raises:
        UsageError: options that do not fit, with what to write.
    """
    if target != SSH and options.hosts:
        raise UsageError(f"--hosts goes with `--target ssh`, and target is {target!r}.")
    if target not in (SLURM, SSH):
        return None
    devices = 1 if options.devices in (None, "auto") else whole_number(options.devices, "--devices")
    common = {
        "name": options.name or target,
        "devices": devices,
        "accelerator": options.accelerator,
        "address": options.controller_address,
        "ports": options.ports,
        "python": options.python or sys.executable,
        "env": dict(options.env),
        "wait_seconds": options.max_wait or WAIT_SECONDS,
    }
    if target == SLURM:
        nodes = 1 if options.nodes is None else whole_number(options.nodes, "--nodes")
        wishes: Wishes = SlurmWishes(nodes=nodes, options=sbatch_options(words), **common)
    elif options.hosts is None:
        if any(cluster.name == common["name"] for cluster in running_clusters()):
            return None
        raise UsageError("Which hosts? Next: `%gpulayer up --target ssh --hosts a,b --devices 2`.")
    else:
        chosen = hosts(options.hosts)
        nodes = len(chosen) if options.nodes is None else whole_number(options.nodes, "--nodes")
        if nodes != len(chosen):
            raise UsageError(f"--nodes is {nodes} and --hosts has {len(chosen)}: one node a host. Next: leave --nodes out.")
        wishes = SshWishes(nodes=nodes, hosts=chosen, ssh=tuple(shlex.split(options.ssh)), **common)
    Topology(wishes.nodes, wishes.devices)  # refuses numbers that cannot be
    return wishes
