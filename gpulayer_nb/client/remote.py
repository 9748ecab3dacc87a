"""A cluster of workers that others have started: joined by its connection file, left without ending it.

Runs in the kernel. Owns a connection and a claim on some of the workers' engines; when the claim ends, those engines do, and the
workers stay for whoever comes next.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulayer_nb import process
from gpulayer_nb.client.claim import Claim
from gpulayer_nb.client.cluster import Delivery, Ranks, Say
from gpulayer_nb.client.engine_start import START_SECONDS, EngineStart, Slot
from gpulayer_nb.client.preflight import check_pairs
from gpulayer_nb.client.remote_watch import RemoteWatch
from gpulayer_nb.client.roll_call import RollCall
from gpulayer_nb.client.sending import send_files
from gpulayer_nb.errors import ClusterError, PlanError
from gpulayer_nb.link.beats import Beats
from gpulayer_nb.link.connection import Connection
from gpulayer_nb.link.reach import check_reachable, read_client_file
from gpulayer_nb.link.supervisors import ask_workers, refusal, supervisors_of
from gpulayer_nb.plan.assignment import assign_nodes
from gpulayer_nb.plan.placement import Placement, place
from gpulayer_nb.plan.topology import Topology, count
from gpulayer_nb.plan.workers import Worker
from gpulayer_nb.records import wire
from gpulayer_nb.records.cluster_folder import ClusterFolder

_JOIN_SECONDS = 3.0  # for a worker that was started just before the cell


@dataclass
class _Link:
    """What goes with one connection."""

    info: dict[str, Any]
    connection: Connection
    beats: Beats
    claim: Claim
    folder: ClusterFolder  # this process's own, for what it sends


@dataclass(frozen=True)
class _Up:
    """Ranks that are up: what was asked, where they are, their engines' uuids."""

    topology: Topology
    asked: str
    placement: Placement
    engines: dict[Slot, str]


class RemoteCluster:
    """Not for several threads at once."""

    is_elsewhere = True

    def __init__(self, target: str, client_file: Path) -> None:
        self.target, self._client_file = target, client_file
        self._token = secrets.token_hex(8)
        self._link: _Link | None = None
        self._up: _Up | None = None
        self._names: dict[str, str] = {}  # by key
        self._tried: frozenset[tuple[str, int]] = frozenset()  # workers whose pairs have connected

    @property
    def topology(self) -> Topology | None:
        return self._up.topology if self._up is not None else None

    @property
    def connection(self) -> Connection:
        return self._linked().connection

    @property
    def client_file(self) -> Path:
        return self._client_file

    @property
    def blobs(self) -> Path:
        return self._linked().folder.blobs

    def watch(self) -> RemoteWatch:
        link = self._linked()
        return RemoteWatch(link.info, link.connection, link.beats, dict(self._names))

    def ranks(self, accelerator: str) -> Ranks:
        up = self._running()
        mps = any(node.worker.mps for node in up.placement.nodes)
        return Ranks(assign_nodes(up.topology, up.placement, up.engines), up.placement.accelerator, mps)

    def workers(self) -> list[Worker]:
        self._connect()
        return self._call_roll().workers

    def ensure(self, topology: Topology, accelerator: str, say: Say) -> bool:
        """Engines of this shape are up when this returns. True if any of them is a new process.

        Raises:
            PlanError: the workers at hand cannot hold it; with a line for each of them.
            ClusterError: the controller or a worker does not answer, workers cannot reach each other, engines do not come up.
        """
        link, up = self._connect(), self._up
        if up is not None and (topology, accelerator) == (up.topology, up.asked) and link.claim.holds():
            registered = link.connection.engines()
            missing = [slot for slot, engine in up.engines.items() if engine not in registered]
            if not missing:
                return False
            say(f"replacing {count(len(missing), 'rank')}")
            new = EngineStart(link.connection, up.placement, missing, say).run(self._token)
            self._up = _Up(topology, accelerator, up.placement, {**up.engines, **new})
            return True
        if up is not None:
            self._find_workers(topology, accelerator, say)  # what cannot be held does not cost the ranks that are up
            self._release()
        placement, roll = self._take_workers(topology, accelerator, say)
        try:
            self._try_pairs(placement, roll)
            wanted = [(node.worker.key, slot) for node in placement.nodes for slot in node.slots]
            engines = EngineStart(link.connection, placement, wanted, say).run(self._token)
        except BaseException:
            self._release()  # an interrupt too leaves nothing half started
            raise
        self._up = _Up(topology, accelerator, placement, engines)
        return True

    def reserve(self, topology: Topology, accelerator: str, say: Say) -> Placement:
        """Workers for this client to run something else than engines on, until `end`; they can reach each other.

        Raises:
            PlanError: the workers at hand cannot hold it; with a line for each of them.
            ClusterError: the controller or a worker does not answer, or workers cannot reach each other.
        """
        self._connect()
        placement, roll = self._take_workers(topology, accelerator, say)
        self._try_pairs(placement, roll)
        return placement

    def _connect(self) -> _Link:
        """The connection that is there, if its controller still is.

        Raises:
            ClusterError: the controller does not answer.
        """
        info = read_client_file(self._client_file)
        if self._link is not None and self._link.info != info:
            self.end()  # another controller has taken its place
        check_reachable(info, self.target)
        if self._link is None:
            folder = ClusterFolder.create(f"client-{os.getpid()}-{secrets.token_hex(3)}")
            folder.add_owner(os.getpid(), process.start_ticks(os.getpid()))
            connection = Connection(self._client_file)
            self._link = _Link(info, connection, Beats(info), Claim(connection, self._token), folder)
        return self._link

    def _linked(self) -> _Link:
        if self._link is None:
            raise ClusterError(f"Cluster {self.target} is not connected. Next: run the cell again.")
        return self._link

    def _running(self) -> _Up:
        if self._up is None:
            raise ClusterError(f"No ranks are up on {self.target}. Next: run the cell again.")
        return self._up

    def _call_roll(self) -> RollCall:
        roll = RollCall.of(self.connection, self._token)
        self._names.update({worker.key: worker.name for worker in roll.workers})
        return roll

    def _find_workers(self, topology: Topology, accelerator: str, say: Say) -> tuple[Placement, RollCall]:
        """Chooses workers; waits for those that are just coming up. Nobody is told."""
        started = time.monotonic()
        while True:
            roll = self._call_roll()
            try:
                return place(topology, accelerator, roll.workers, roll.unheard), roll
            except PlanError:
                waited = time.monotonic() - started
                loading = [worker.name for worker in roll.workers if not worker.is_ready]
                early = len(roll.workers) < topology.num_nodes and waited < _JOIN_SECONDS
                if not early and (not loading or waited > START_SECONDS):
                    raise
                say(f"waiting for {', '.join(loading)} to load torch" if loading else "waiting for workers")
                time.sleep(0.1)

    def _take_workers(self, topology: Topology, accelerator: str, say: Say) -> tuple[Placement, RollCall]:
        """Chooses workers and claims their engines."""
        started = time.monotonic()
        while True:
            placement, roll = self._find_workers(topology, accelerator, say)
            refused = self._linked().claim.take({node.worker.key: node.slots for node in placement.nodes})
            if not refused:
                return placement, roll
            if time.monotonic() - started > _JOIN_SECONDS:  # each time another client was faster
                taken = ", ".join(f"{self._names[key]} {why}" for key, why in refused.items())
                raise ClusterError(f"Workers were taken meanwhile: {taken}. Next: run the cell again.")

    def _try_pairs(self, placement: Placement, roll: RollCall) -> None:
        workers = [node.worker for node in placement.nodes]
        now = frozenset((worker.key, roll.states[worker.key].probe_port) for worker in workers)
        if not now <= self._tried:
            check_pairs(self.connection, workers, roll.states, supervisors_of(self.connection))
            self._tried = now

    def deliver(self, files: Sequence[Path], run_folder: Path) -> dict[str, Delivery]:
        """Gives every worker of the present ranks these files, those that it has not yet."""
        link = self._linked()
        keys = [node.worker.key for node in self._running().placement.nodes]
        content = {
            "client": self._token,
            "files": {path.name: path.stat().st_size for path in files},
            "keep": [path.name for path in link.folder.blobs.iterdir()] if link.folder.blobs.is_dir() else [],
            "run_folder": str(run_folder),
        }
        replies = ask_workers(link.connection, dict.fromkeys(keys, content), wire.OFFER_FILES)
        supervisors = supervisors_of(link.connection)
        wanted: dict[str, list[Path]] = {}
        for key in keys:
            if why := refusal(replies.get(key)):
                raise ClusterError(f"Worker {self._names[key]} {why}. Next: `%gpulayer workers`, then run the cell again.")
            wanted[supervisors[key]] = [path for path in files if path.name in replies[key]["missing"]]
        send_files(link.connection, self._token, wanted, {supervisors[key]: self._names[key] for key in keys})
        return {key: Delivery(replies[key]["folder"], "", str(run_folder) if replies[key]["sees"] else "") for key in keys}

    def hand_over(self) -> HandedRemote:
        return HandedRemote(self._client_file, self._token, self._linked().claim.keys, dict(self._names))

    def let_go(self) -> None:
        self._linked().claim.let_go()
        self._up = None
        self._token = secrets.token_hex(8)
        self.end()

    def _release(self) -> None:
        self._up = None
        self._linked().claim.release()

    def end(self) -> None:
        link, self._link = self._link, None
        if link is None:
            return
        self._up, self._tried = None, frozenset()
        link.claim.end()
        link.beats.end()
        link.connection.close()
        shutil.rmtree(link.folder.blobs, ignore_errors=True)
        shutil.rmtree(link.folder.path, ignore_errors=True)


class HandedRemote:
    """Engines of several workers on their way to the process that drives a detached run."""

    inherits: tuple[int, ...] = ()

    def __init__(self, client_file: Path, token: str, keys: Sequence[str], names: dict[str, str]) -> None:
        self.client_file, self._token, self._keys, self._names = client_file, token, tuple(keys), names
        self._claim: Claim | None = None

    def take(self, connection: Connection) -> RemoteWatch:
        self._claim = Claim(connection, self._token, self._keys)
        info = read_client_file(self.client_file)
        return RemoteWatch(info, connection, Beats(info), self._names)

    def leave(self) -> None:
        if self._claim is not None:
            self._claim.end()
