"""The embedded cluster: controller, supervisor and engines on this machine, started on demand.

Runs in the kernel. Owns the supervisor's process, whose standard input is the lease: when this process ends, however it ends,
the supervisor ends everything.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpulayer_nb import process
from gpulayer_nb.client.cluster import Delivery, Ranks, Say
from gpulayer_nb.client.engine_watch import LocalWatch
from gpulayer_nb.client.orphans import sweep
from gpulayer_nb.errors import ClusterError, GpuLayerError
from gpulayer_nb.link.connection import Connection, preload
from gpulayer_nb.plan.accelerator import check_system, choose_accelerator
from gpulayer_nb.plan.assignment import assign_embedded
from gpulayer_nb.plan.topology import Topology, count
from gpulayer_nb.plan.workers import Worker
from gpulayer_nb.records import wire
from gpulayer_nb.records.cluster_folder import ClusterFolder, clusters_root
from gpulayer_nb.records.connection_file import read_if_whole
from gpulayer_nb.records.worker_state import EngineDeath, WorkerState

START_SECONDS = 120.0  # importing torch for the first time from a cold disk takes a minute on small machines
_POLL_SECONDS = 0.02
WORKER = "local"

_left_to_others: list[subprocess.Popen[bytes]] = []  # kept so that Python can reap them when they end


def _choose(accelerator: str, topology: Topology, worker: Worker) -> str:
    return choose_accelerator(
        accelerator, topology, cuda_devices=worker.cuda_devices, mps=worker.mps, where=f"worker {worker.name}"
    )


class EmbeddedCluster:
    """One worker on this machine. Not for several threads at once."""

    target = "local"
    is_elsewhere = False

    def __init__(self) -> None:
        self.folder: ClusterFolder | None = None
        self._connection: Connection | None = None
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._topology: Topology | None = None

    @property
    def connection(self) -> Connection:
        if self._connection is None:
            raise ClusterError("The embedded cluster is not up. Next: run the cell again.")
        return self._connection

    @property
    def client_file(self) -> Path:
        return self._folder().client_file

    @property
    def blobs(self) -> Path:
        return self._folder().blobs

    def watch(self) -> LocalWatch:
        return LocalWatch(self._folder(), self.connection)

    def ranks(self, accelerator: str) -> Ranks:
        """Who is who; a run is never made smaller than asked.

        Raises:
            PlanError: too few GPUs.
        """
        topology, worker = self.topology, self.worker()
        if topology is None:
            raise ClusterError("The embedded cluster is not up. Next: run the cell again.")
        return Ranks(assign_embedded(topology, worker), _choose(accelerator, topology, worker), worker.mps)

    def workers(self) -> list[Worker]:
        return [self.worker()] if self.is_up else []

    def deliver(self, files: Sequence[Path], run_folder: Path) -> dict[str, Delivery]:
        """The ranks are on this machine: they read what lies here."""
        blobs = str(self.blobs)
        return {WORKER: Delivery(blobs, blobs, str(run_folder))}

    @property
    def is_up(self) -> bool:
        return self._supervisor is not None and self._supervisor.poll() is None and self._connection is not None

    @property
    def topology(self) -> Topology | None:
        """The shape of the engines that are up."""
        return self._topology if self.is_up else None

    def ensure(self, topology: Topology, accelerator: str, say: Say) -> bool:
        """Engines of this shape are up when this returns. True if any of them is a new process.

        Raises:
            ClusterError: they do not come up; says how many did and why the others did not. Nothing is left running then.
            PlanError: this system cannot run ranks.
        """
        check_system(sys.platform)
        if not self.is_up:
            self._start(topology, say)
            return True
        slots = set(range(topology.world_size))
        if topology == self._topology:
            missing = slots - set(self._engines())
            if not missing:
                return False
            say(f"replacing {count(len(missing), 'rank')}")
        else:
            _choose(accelerator, topology, self.worker())  # what cannot be held does not cost the ranks that are up
            self._kill_all()
            missing = slots
        self._topology = topology
        self._request(wire.START_ENGINES, {"slots": sorted(missing), "nodes": topology.num_nodes, "devices": topology.devices})
        self._wait_for_engines(topology, say)
        return True

    def begin(self, topology: Topology) -> None:
        """Lets processes start and load torch while this one does something else; what goes wrong is said by `ensure`."""
        if not self._is_starting and not self.is_up:
            with contextlib.suppress(GpuLayerError, OSError):  # `ensure` tries again, and raises it
                check_system(sys.platform)
                self._launch(topology)

    @property
    def _is_starting(self) -> bool:
        return self._supervisor is not None and self._supervisor.poll() is None and self._connection is None

    def _launch(self, topology: Topology) -> None:
        """A supervisor, which starts the rest."""
        self.end()  # what is left of an earlier one
        sweep(clusters_root())
        folder = self.folder = ClusterFolder.create(f"local-{os.getpid()}-{secrets.token_hex(3)}")
        folder.add_owner(os.getpid(), process.start_ticks(os.getpid()))
        self._topology = topology
        environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        with (folder.logs / "worker.log").open("ab") as log:
            self._supervisor = subprocess.Popen(
                [
                    sys.executable, "-m", "gpulayer_nb.worker", f"--folder={folder.path}", f"--worker={WORKER}",
                    f"--slots={topology.world_size}", f"--nodes={topology.num_nodes}", f"--devices={topology.devices}",
                ],
                stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True,
            )  # fmt: skip

    def _start(self, topology: Topology, say: Say) -> None:
        if not self._is_starting or self._topology != topology:
            self._launch(topology)
        try:
            say("starting the controller and loading torch")
            preload()
            self._connect(say)
            self._wait_for_engines(topology, say)
        except BaseException:
            self.end()  # an interrupt too leaves nothing half started
            raise

    def _connect(self, say: Say) -> None:
        folder = self._folder()
        deadline = time.monotonic() + START_SECONDS
        while read_if_whole(folder.client_file) is None:
            self._check_supervisor()
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"The controller did not come up in {START_SECONDS:.0f} s. Its log: {folder.logs / 'controller.log'}"
                )
            time.sleep(_POLL_SECONDS)
        self._connection = Connection(folder.client_file)

    def _wait_for_engines(self, topology: Topology, say: Say) -> None:
        wanted = topology.world_size
        known_deaths = {death.pid for death in self._deaths()} if self._connection else set()
        deadline = time.monotonic() + START_SECONDS
        shown = -1
        while True:
            up = self._engines()
            if len(up) >= wanted:
                return
            state = self.state()
            if state is not None and state.phase == "up" and len(up) != shown:
                shown = len(up)
                say(f"{shown} of {count(wanted, 'rank')} up")
            died = [death for death in self._deaths() if not death.expected and death.pid not in known_deaths]
            if died:
                self._refuse_start(len(up), wanted, died)
            self._check_supervisor()
            if time.monotonic() > deadline:
                self._refuse_start(len(up), wanted, [])
            time.sleep(_POLL_SECONDS)

    def _refuse_start(self, up: int, wanted: int, died: list[EngineDeath]) -> None:
        folder = self._folder()
        name = f"engine-{died[0].slot}.log" if died else "zygote.log"
        why = f"engine {died[0].slot} ended with {_how(died[0])}" if died else f"no more came in {START_SECONDS:.0f} s"
        tail = folder.log_tail(name)
        self.end()
        raise ClusterError(
            f"{up} of {count(wanted, 'rank')} came up: {why}. All were stopped.\nLast lines of {name}:\n{tail or '(empty)'}"
        )

    def _check_supervisor(self) -> None:
        state = self.state()
        gone = self._supervisor is None or self._supervisor.poll() is not None
        if not gone and (state is None or state.phase != "down"):
            return
        folder = self._folder()
        why = state.message if state and state.message else "the supervisor ended"
        name = "zygote.log" if "zygote" in why else ("controller.log" if "controller" in why else "worker.log")
        tail = folder.log_tail(name)
        self.end()
        raise ClusterError(f"The engines did not come up: {why}.\nLast lines of {name}:\n{tail or '(empty)'}")

    def _engines(self) -> dict[int, str]:
        """slot → uuid of the engines that are registered and alive."""
        if self._connection is None:
            return {}
        found: dict[int, str] = {}
        for engine_uuid in self._connection.engines():
            identity = wire.EngineIdentity.parse(engine_uuid)
            # the hub hears of a death some milliseconds after the system knows
            if identity is not None and process.start_ticks(identity.pid) is not None:
                found[identity.slot] = engine_uuid
        return found

    def _kill_all(self) -> None:
        slots = sorted(self._engines())
        self._request(wire.KILL_ENGINES, {"slots": slots})
        deadline = time.monotonic() + 5.0
        while self._engines() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def _request(self, message_type: str, content: dict[str, object]) -> None:
        if self._connection is None:
            raise ClusterError("The embedded cluster is not up. Next: run the cell again.")
        deadline = time.monotonic() + 30.0
        while time.monotonic() < deadline:
            workers = [engine for engine in self._connection.engines() if wire.worker_of(engine) == WORKER]
            if workers and self._connection.request(workers[:1], message_type, content, timeout_seconds=5.0):
                return
            self._check_supervisor()
            time.sleep(_POLL_SECONDS)  # just after the start the supervisor itself is not registered yet
        raise ClusterError(
            f"The supervisor of worker {WORKER} did not answer in 30 s. Next: `%gpulayer down`, then run the cell again."
        )

    def state(self) -> WorkerState | None:
        return WorkerState.read(self.folder.state) if self.folder else None

    def _deaths(self) -> tuple[EngineDeath, ...]:
        state = self.state()
        return state.deaths if state else ()

    def worker(self) -> Worker:
        """This machine as the planner sees it."""
        state, engines = self.state(), self._engines()
        facts = state.facts if state else {}
        return Worker(
            key=WORKER,
            name=WORKER,
            address="127.0.0.1",
            interface="lo",
            torch_version=facts.get("torch", ""),
            python_version=facts.get("python", ""),
            backends=tuple(facts.get("backends", ())),
            engines=engines,
            cuda_devices=facts.get("cuda_devices", 0),
            mps=facts.get("mps", False),
            embedded=True,
        )

    def hand_over(self) -> HandedEmbedded:
        """Whoever holds the pipe on the supervisor's standard input open keeps the cluster alive."""
        if self._supervisor is None or self._supervisor.stdin is None:
            raise ClusterError("The embedded cluster is not up. Next: run the cell again.")
        return HandedEmbedded(self._folder(), (self._supervisor.stdin.fileno(),))

    def let_go(self) -> None:
        """Another process holds the lease now: the cluster is no longer ours to end."""
        if self._connection is not None:
            self._connection.close()
        if self._supervisor is not None and self._supervisor.stdin is not None:
            self._supervisor.stdin.close()
        if self._supervisor is not None:
            _left_to_others.append(self._supervisor)
        self._connection = self.folder = self._supervisor = self._topology = None

    def _folder(self) -> ClusterFolder:
        if self.folder is None:
            raise ClusterError("The embedded cluster is not up. Next: run the cell again.")
        return self.folder

    def end(self) -> None:
        """Stops everything and waits until it is gone."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        supervisor, self._supervisor, self._topology = self._supervisor, None, None
        if supervisor is not None:
            if supervisor.stdin is not None:
                supervisor.stdin.close()  # the lease ends
            try:
                supervisor.wait(timeout=10.0)
            except subprocess.TimeoutExpired:
                supervisor.kill()
                supervisor.wait(timeout=5.0)
        if self.folder is not None:
            shutil.rmtree(self.folder.blobs, ignore_errors=True)
            shutil.rmtree(self.folder.path, ignore_errors=True)
            self.folder = None


@dataclass(frozen=True)
class HandedEmbedded:
    """The embedded cluster on its way to the process that drives a detached run."""

    folder: ClusterFolder
    inherits: tuple[int, ...]

    @property
    def client_file(self) -> Path:
        return self.folder.client_file

    def take(self, connection: Connection) -> LocalWatch:
        self.folder.add_owner(os.getpid(), process.start_ticks(os.getpid()))
        return LocalWatch(self.folder, connection)

    def leave(self) -> None:
        """The pipe closes with this process."""


def _how(death: EngineDeath) -> str:
    return f"signal {death.signal}" if death.signal else f"exit code {death.exit_code}"
