"""Workers as a Slurm job, submitted with ipyparallel's launcher.

Runs in the kernel, on a machine that has sbatch, squeue and scancel. Owns the words about the job; knows nothing of runs.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from gpulayer_nb.client.cluster import Say
from gpulayer_nb.client.provision.slurm_command import run
from gpulayer_nb.client.provision.slurm_job import TEMPLATE, directives
from gpulayer_nb.client.provision.wishes import SlurmWishes
from gpulayer_nb.errors import ClusterError
from gpulayer_nb.records.run_folder import default_root

_END_SECONDS = 10.0
_COMPLETING_SECONDS = 2.0
_TAIL_LINES = 15
_OVER = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT",
}  # fmt: skip


def node_address(wishes: SlurmWishes) -> str | None:
    """The address of one node this job could get: to find out which of our addresses the nodes reach us by."""
    partitions = [option for option in wishes.options if option.startswith(("--partition=", "-p "))]
    wanted = [f"--partition={option[len('--partition=') :] if '=' in option else option[3:]}" for option in partitions[-1:]]
    sinfo = ["sinfo", "-h", "-N", "-o", "%o"]
    found = run([*sinfo, *wanted]).split() or run(sinfo).split()  # a partition that is not there is sbatch's to refuse
    return found[0] if found else None


class SlurmWorkers:
    """One job with a worker on each of its nodes. StartedWorkers."""

    def __init__(self, wishes: SlurmWishes, folder: Path) -> None:
        self._wishes, self._folder = wishes, folder
        self._job = ""
        self._output = default_root() / "slurm" / f"{wishes.name}-%j.log"

    def start(self, info: dict[str, Any], say: Say) -> None:
        from gpulayer_nb.client.provision.slurm_launcher import SlurmLauncher  # brings in most of ipyparallel

        self._output.parent.mkdir(parents=True, exist_ok=True)
        wishes = self._wishes
        launcher = SlurmLauncher(
            work_dir=str(self._folder), profile_dir=str(self._folder), cluster_id=wishes.name,
            engine_cmd=wishes.worker_command(), batch_template=TEMPLATE, output_file=str(self._output),
            namespace={"wishes": directives(wishes.options, wishes.devices, wishes.accelerator)},
            # the key travels in the job's environment, which only its owner and root can read; no shared folder is needed
            environment={**wishes.env, "IPP_CONNECTION_INFO": json.dumps(info)},
        )  # fmt: skip
        self._job = str(launcher.start(wishes.nodes))
        say(f"Slurm job {self._job} is submitted; `squeue -j {self._job}` shows it too")

    def progress(self) -> str:
        state, reason = self._state()
        if state in _OVER or not state:
            raise ClusterError(f"{self._how_it_ended(state, reason)}{self._tail()}")
        shown = f" ({reason})" if reason and reason != "None" else ""
        return f"Slurm job {self._job} is {state}{shown}"

    def is_lost(self, worker: str) -> bool:
        return False  # asking Slurm takes longer than the worker's own silence tells

    def why_lost(self, worker: str) -> str | None:
        return self.ended()

    def ended(self) -> str | None:
        try:
            state, reason = self._state()
            deadline = time.monotonic() + _COMPLETING_SECONDS
            while state == "COMPLETING" and time.monotonic() < deadline:  # how it ended is told a moment later
                time.sleep(0.1)
                state, reason = self._state()
        except ClusterError:
            return None  # Slurm itself does not answer: nothing is known
        if state and state not in _OVER and state != "COMPLETING":
            return None
        return self._how_it_ended(state, reason)

    @property
    def leases(self) -> tuple[int, ...]:
        return ()  # without their controller the workers end by themselves, and the job with them

    def let_go(self) -> None:
        self._job = ""

    def end(self) -> None:
        if not self._job:
            return
        try:
            run(["scancel", self._job])
            deadline = time.monotonic() + _END_SECONDS
            while self._state()[0] not in (*_OVER, "") and time.monotonic() < deadline:
                time.sleep(0.2)
        except ClusterError:
            pass  # it has ended already, or Slurm is away: the workers end by themselves without their controller
        self._job = ""

    def _state(self) -> tuple[str, str]:
        """State and reason; empty once the queue has forgotten the job, minutes after its end."""
        try:
            said = run(["squeue", "-h", "-t", "all", "-j", self._job, "-o", "%T|%r"])
        except ClusterError as error:
            if "Invalid job id" in str(error):
                return "", ""
            raise
        state, _, reason = said.strip().partition("|")
        return state, reason

    def _how_it_ended(self, state: str, reason: str) -> str:
        why = f" ({reason})" if reason and reason != "None" else ""
        return f"Slurm job {self._job} has ended: {state}{why}" if state else f"Slurm job {self._job} is no longer in the queue"

    def _tail(self) -> str:
        path = Path(str(self._output).replace("%j", self._job))
        try:
            lines = path.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        except OSError:
            return f". Its output is in {path}, as far as this machine sees it."
        return f". Last lines of {path}:\n" + ("\n".join(lines) or "(empty)")
