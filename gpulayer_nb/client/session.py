"""One notebook's link to its ranks: cluster, group, what was shipped, the run that is on.

Runs in the kernel. Owns the order of a run: engines up, names packed, sent, waited for. Must not know how a run is shown.
"""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpulayer_nb.client.conduct import Conduct
from gpulayer_nb.client.driver import DriverOutcome
from gpulayer_nb.client.embedded import EmbeddedCluster, Say
from gpulayer_nb.client.engine_watch import EngineWatch
from gpulayer_nb.client.hang_report import HangReport
from gpulayer_nb.client.interrupts import Interrupts
from gpulayer_nb.client.listener import RunListener
from gpulayer_nb.client.rank_group import RankGroup, ReadyGroup
from gpulayer_nb.client.run_request import RunRequest
from gpulayer_nb.client.run_specs import rank_specs, run_started, uses_of_a_fit
from gpulayer_nb.client.tap import Tap
from gpulayer_nb.errors import ClusterError, UsageError
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.records.cluster_folder import ClusterFolder
from gpulayer_nb.records.connection_file import read_if_whole
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import Notice
from gpulayer_nb.records.run_folder import RunFolder
from gpulayer_nb.records.run_spec import RunSpec
from gpulayer_nb.shipping.blobs import BlobStore
from gpulayer_nb.shipping.free_names import bound_names
from gpulayer_nb.shipping.packer import Packer
from gpulayer_nb.shipping.shipment import Shipment
from gpulayer_nb.shipping.unpacker import Unpacker

# What every rank has under these names is its own.
RESERVED = frozenset({"rank", "local_rank", "node_rank", "world_size", "device", "dist", "torch"})


@dataclass(frozen=True)
class SessionOutcome:
    """A run as the session saw it end.

    `model` is what rank 0 sent back of the model; `values` the last expression's value of each rank that sent one.
    """

    group: ReadyGroup
    ranks: DriverOutcome
    listener: RunListener
    model: Any = None
    values: dict[int, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Prepared:
    """A run that can be sent now."""

    group: ReadyGroup
    packer: Packer
    shipment: Shipment
    specs: list[RunSpec]


@dataclass(frozen=True)
class DetachedRun:
    """What the process that drives a detached run needs. `lease` is the file descriptor it has to inherit."""

    mode: str
    group: ReadyGroup
    specs: list[RunSpec]
    cluster: ClusterFolder
    lease: int
    timeout_seconds: float | None


class Session:
    """Belongs to one namespace (a notebook's). One run at a time."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace
        self.cluster = EmbeddedCluster()
        self._group = RankGroup(self.cluster)
        self._packer: Packer | None = None
        self._unpacker = Unpacker(namespace)
        self._tap: Tap | None = None
        self._tapped: Path | None = None
        self._conduct: Conduct | None = None
        self._busy = threading.Lock()

    @property
    def topology(self) -> Topology | None:
        """The shape of the ranks that are up, if any are."""
        return self.cluster.topology

    def up(self, topology: Topology, say: Say) -> bool:
        """Brings ranks of this shape up; True if they are new processes."""
        fresh = self.cluster.ensure(topology, say)
        if fresh:
            self._forget()
        return fresh

    def down(self) -> None:
        """Ends the ranks and everything that belongs to them."""
        self._forget()
        self._packer = None
        if self._tap is not None:
            self._tap.end()
            self._tap = self._tapped = None
        self.cluster.end()

    def stop(self) -> bool:
        """Asks the run that is on to stop, from any thread; again for one stage harder. False if no run is on."""
        conduct = self._conduct
        if conduct is None:
            return False
        conduct.driver.request_stop()
        return True

    def hang_report(self) -> HangReport | None:
        """Where every rank of the run that is on is now; None if no run is on."""
        conduct = self._conduct
        return None if conduct is None else conduct.driver.hang_report()

    def run(
        self,
        request: RunRequest,
        run_id: str,
        folder: RunFolder,
        history: RunHistory,
        say: Say,
        refresh: Callable[[], None],
        interrupts: Interrupts,
    ) -> SessionOutcome:
        """Runs a request to its end; raises only for what keeps it from starting.

        Args:
            history: takes in every record; a view reads it.
            say: told in a few words what a start is waiting for.
            refresh: called about ten times a second while the ranks work, on this thread.
            interrupts: counted from the moment the ranks are at work; each press stops one stage harder.
        """
        with self._alone():
            prepared = self._prepare(request, run_id, folder, history, say)
            connection = self.cluster.connection
            if connection is None:
                raise ClusterError("The embedded cluster went away. Next: run the cell again.")
            conduct = self._conduct = Conduct(
                connection,
                EngineWatch(self._folder(), connection),
                prepared.group,
                run_id,
                history,
                can_ask=request.mode != "ranks",
                refresh=refresh,
                timeout_seconds=request.timeout_seconds,
                presses=lambda: interrupts.presses,
            )
            self._listen()
            interrupts.count()
            try:
                outcome = conduct.run(prepared.specs)
            finally:
                self._conduct = None
                connection.forget_results()
            model, values = self._settle(request, prepared, outcome)
            return SessionOutcome(prepared.group, outcome, conduct.listener, model, values)

    def _settle(self, request: RunRequest, prepared: _Prepared, outcome: DriverOutcome) -> tuple[Any, dict[int, Any]]:
        """Takes what came back, and remembers what the ranks have now."""
        packer, results = prepared.packer, outcome.results
        if not outcome.group_is_whole:
            self._group.renew()
        model = self.load(results[0].model) if 0 in results and results[0].model else None
        values = {rank: self.load(result.value) for rank, result in results.items() if result.value}
        if len(results) == prepared.group.topology.world_size and all(result.has_names for result in results.values()):
            packer.commit(prepared.shipment)  # frees the files of what came back too, so it comes after them
            if all(result.state == "finished" for result in results.values()):
                # the ranks have given these names values of their own: an older one of the notebook must not replace them
                packer.mark_synced(*bound_names(request.python))
        if request.mode == "train" and model is None:
            packer.send_again(request.names.model)  # half trained on the ranks, and as before in the notebook
        return model, values

    def _prepare(self, request: RunRequest, run_id: str, folder: RunFolder, history: RunHistory, say: Say) -> _Prepared:
        """Engines up, names packed; the run's start is on record."""
        before = self.topology
        group = self._group.ensure(request.topology, request.accelerator, request.group_timeout_seconds, dict(request.env), say)
        if group.fresh:
            self._forget()
        packer = self._packer = self._packer or Packer(self.namespace, BlobStore(self._blobs()), reserved=RESERVED)
        shipment = self._pack(packer, request)
        started = run_started(request, run_id, group)
        folder.append(started)
        history.apply(started)
        if group.fresh and before is not None:
            history.apply(Notice(text=_new_processes(before, request.topology)))
        specs = rank_specs(request, run_id, folder, group, shipment, self._blobs(), self.namespace)
        return _Prepared(group, packer, shipment, specs)

    def detach(
        self,
        request: RunRequest,
        run_id: str,
        folder: RunFolder,
        history: RunHistory,
        say: Say,
        launch: Callable[[DetachedRun], None],
    ) -> None:
        """Hands a run and its ranks over to a process of their own; the next cell here gets new ranks.

        Args:
            launch: starts that process, which has to hold the cluster's lease before it returns.
        """
        with self._alone():
            prepared = self._prepare(request, run_id, folder, history, say)
            cluster = self._folder()
            launch(
                DetachedRun(request.mode, prepared.group, prepared.specs, cluster, self.cluster.lease, request.timeout_seconds)
            )
            self.cluster.let_go()
            self.down()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One run at a time."""
        if not self._busy.acquire(blocking=False):
            raise UsageError("Another run of this notebook is on. Next: wait for it, or stop it with `%gpulayer stop`.")
        try:
            yield
        finally:
            self._busy.release()

    def _pack(self, packer: Packer, request: RunRequest) -> Shipment:
        if not request.sync:
            return Shipment()
        if request.mode in ("fit", "validate", "test", "predict"):
            return packer.pack_values(request.values)
        return packer.pack_cell(request.python + uses_of_a_fit(request))

    def returned(self, name: str) -> None:
        """The notebook's `name` and the ranks' are the same now."""
        if self._packer is not None:
            self._packer.mark_synced(name)

    def load(self, dump: bytes) -> Any:
        """An object that a rank sent back."""
        shipment: Shipment = pickle.loads(dump)
        unpacked = self._unpacker.unpack(shipment, overwrite=False)
        if self._packer is not None and unpacked.names:
            self._packer.mark_synced(*unpacked.names)
        return unpacked.values["value"]

    def _folder(self) -> ClusterFolder:
        if self.cluster.folder is None:
            raise ClusterError("The embedded cluster is not up. Next: run the cell again.")
        return self.cluster.folder

    def _blobs(self) -> Path:
        return self._folder().blobs

    def _forget(self) -> None:
        """The ranks are new processes: they have nothing, and no group."""
        self._group.renew()
        if self._packer is not None:
            self._packer.forget()

    def _listen(self) -> None:
        folder = self.cluster.folder
        if folder is None or self._tapped == folder.client_file:
            return
        if self._tap is not None:
            self._tap.end()
        info = read_if_whole(folder.client_file)
        if info is None:
            raise ClusterError(
                f"The controller's connection file is gone: {folder.client_file}. Next: `%gpulayer down`, then run again."
            )
        self._tap = Tap(info, self._hear)
        self._tap.start()
        self._tapped = folder.client_file

    def _hear(self, topic: str, message: dict[str, Any]) -> None:
        conduct = self._conduct
        if conduct is not None:
            conduct.listener.hear(topic, message)


def _new_processes(before: Topology, now: Topology) -> str:
    if before == now:
        return "A rank that had ended was replaced: its variables are gone, and those of the notebook were sent again to all."
    return f"{now}: new processes, so the variables of the former {before.world_size} ranks are gone."
