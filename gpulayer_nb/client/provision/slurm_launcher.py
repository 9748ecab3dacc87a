"""ipyparallel's launcher for Slurm, with errors that a notebook shows.

Runs in the kernel. To be imported only where a job is submitted: it brings in most of ipyparallel.
"""

from __future__ import annotations

from typing import Any

from ipyparallel.cluster.launcher import SlurmEngineSetLauncher

from gpulayer_nb.client.provision.slurm_command import run


class SlurmLauncher(SlurmEngineSetLauncher):  # type: ignore[misc]  # ipyparallel has no type hints
    def _run_command(self, command: list[str], **kwargs: Any) -> str:
        """ipyparallel's lets sbatch's own words go to the terminal, where a notebook does not show them."""
        return run(command, env=kwargs.get("env"))
