"""What the user asked of a cluster to be brought up. Plain data."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

WAIT_SECONDS = 3600.0  # in a queue; a notebook cell that waits longer has been forgotten


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What Slurm and SSH have in common.

    Attributes:
        name: the cluster's, for `--target`.
        devices: ranks on each node.
        address: where the controller listens; None: the address this machine has towards the nodes.
        ports: a range for the controller, where a firewall needs one.
        python: the interpreter on the nodes; it has gpulayer_nb and the same torch.
        env: environment variables of the workers and their ranks.
        wait_seconds: for all workers to join.
    """

    name: str
    nodes: int
    devices: int
    accelerator: str = "auto"
    address: str | None = None
    ports: str | None = None
    python: str = sys.executable
    env: Mapping[str, str] = field(default_factory=dict)
    wait_seconds: float = WAIT_SECONDS

    def worker_command(self) -> list[str]:
        """What each node runs; where the controller is it learns apart."""
        command = [self.python, "-m", "gpulayer_nb", "worker", "start", f"--devices={self.devices}"]
        return command if self.accelerator == "auto" else [*command, f"--accelerator={self.accelerator}"]


@dataclass(frozen=True, kw_only=True)
class SlurmWishes(Wishes):
    """`options` are sbatch's, each as sbatch has it after `#SBATCH`."""

    options: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SshWishes(Wishes):
    """`hosts` are ssh's destinations, one worker each; `ssh` is the command with options of the user's."""

    hosts: tuple[str, ...]
    ssh: tuple[str, ...] = ("ssh",)
