"""Slurm's commands, with Slurm's own words where one fails.

Runs in the kernel, on a machine that has them. Must not know what they are for.
"""

from __future__ import annotations

import subprocess

from gpulayer_nb.errors import ClusterError

COMMAND_SECONDS = 30.0


def run(command: list[str], env: dict[str, str] | None = None) -> str:
    """One of Slurm's commands; its output.

    Raises:
        ClusterError: there is no such command, or it failed; with Slurm's words.
    """
    try:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_SECONDS,
            start_new_session=True,  # the notebook's interrupt is for us
        )  # fmt: skip
    except FileNotFoundError:
        raise ClusterError(
            f"This machine has no `{command[0]}`. Next: run the notebook where Slurm's commands are (a login node), "
            "or load Slurm's module before Jupyter starts."
        ) from None
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"`{command[0]}` did not answer in {COMMAND_SECONDS:.0f} s. Next: see whether Slurm is well."
        ) from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).replace("\n", "; ")
        raise ClusterError(f"Slurm refused: {said or f'{command[0]} ended with exit code {done.returncode}'}.")
    return done.stdout
