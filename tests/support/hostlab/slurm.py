"""A real Slurm on hosts of the lab: controller on `head`, one slurmd on each node, munge between them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from hostlab.lab import Lab

START_SECONDS = 20.0
NODE_LOST_SECONDS = 5  # after so long without an answer a node is down


class SlurmLab:
    """Partition `main` with all nodes, `cpus` each. Ends with the lab's hosts."""

    def __init__(self, lab: Lab, nodes: Sequence[str] = ("a", "b"), controller: str = "head", cpus: int = 4) -> None:
        self.lab, self.nodes, self.controller, self.cpus = lab, tuple(nodes), controller, cpus
        self.folder = lab.folder / "slurm"
        self.env = {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def up(self) -> None:
        for name in ("munge", "state", *(f"spool-{node}" for node in self.nodes)):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "munge").chmod(0o711)  # munged refuses a folder that others can write to
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        Path(self.env["SLURM_CONF"]).write_text(self._configuration())
        head = self.lab[self.controller]
        munge = self.folder / "munge"
        head.start(
            [
                "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={munge}/socket", f"--pid-file={munge}/pid",
                f"--log-file={munge}/log", f"--seed-file={munge}/seed",
            ]
        )  # fmt: skip
        head.start(["slurmctld", "-D", "-c", "-f", self.env["SLURM_CONF"]], env=self.env)
        for node in self.nodes:
            self.start_node(node)
        self.wait_for_nodes("idle", len(self.nodes))

    def start_node(self, node: str) -> None:
        self.lab[node].start(["slurmd", "-D", "-c", "-N", node, "-f", self.env["SLURM_CONF"]], env=self.env)

    def wait_for_nodes(self, state: str, number: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            said = self.run(["sinfo", "-h", "-o", "%t %D"], check=False)
            if said.stdout.strip() == f"{state} {number}":
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"Slurm's nodes are not {state}: {said.stdout}{said.stderr}{self.logs()}")
            time.sleep(0.1)

    def run(self, command: Sequence[str], *, check: bool = True, timeout: float = 30.0) -> subprocess.CompletedProcess[str]:
        """One of Slurm's commands, on the controller's host."""
        return self.lab[self.controller].run(command, env=self.env, check=check, timeout=timeout)

    def jobs(self) -> list[str]:
        """`id state reason` of every job in the queue."""
        return self.run(["squeue", "-h", "-o", "%i %T %r"]).stdout.splitlines()

    def resume_nodes(self) -> None:
        """Nodes that were drained or set down serve again."""
        states = dict(line.split() for line in self.run(["sinfo", "-h", "-N", "-o", "%n %T"]).stdout.splitlines())
        for node, state in states.items():
            if state.rstrip("*").startswith(("down", "drain")):
                self.run(["scontrol", "update", f"nodename={node}", "state=resume"])

    def cancel_all(self) -> None:
        for job in self.jobs():
            self.run(["scancel", job.split()[0]])

    def logs(self) -> str:
        return "".join(
            f"\n== {path.parent.name}/{path.name}\n{path.read_text(errors='replace')[-3000:]}"
            for path in sorted(self.lab.folder.glob("*/*.log"))
        )

    def _configuration(self) -> str:
        nodes = "\n".join(
            f"NodeName={node} NodeAddr={self.lab[node].address} Port=17011 CPUs={self.cpus} RealMemory=4000"
            for node in self.nodes
        )
        return f"""ClusterName=hostlab
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmctldHost={self.controller}({self.lab[self.controller].address})
SlurmctldPort=17002
SlurmctldPidFile={self.folder}/slurmctld.pid
StateSaveLocation={self.folder}/state
SlurmdPidFile={self.folder}/slurmd-%n.pid
SlurmdSpoolDir={self.folder}/spool-%n
SlurmdParameters=config_overrides
SlurmdTimeout={NODE_LOST_SECONDS}
KillWait=2
MessageTimeout=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
{nodes}
PartitionName=main Nodes={",".join(self.nodes)} Default=YES State=UP MaxTime=INFINITE
"""
