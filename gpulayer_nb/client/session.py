"""One notebook's link to its ranks: cluster, group, what was shipped, the run that is on.

Runs in the kernel. Owns the order of a run: engines up, names packed, sent, waited for. Must not know how a run is shown.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpulayer_nb.client.driver import Driver, DriverOutcome
from gpulayer_nb.client.embedded import EmbeddedCluster, Say
from gpulayer_nb.client.hang_report import HangReport
from gpulayer_nb.client.listener import RunListener
from gpulayer_nb.client.rank_group import RankGroup, ReadyGroup
from gpulayer_nb.client.run_request import RunRequest
from gpulayer_nb.client.tap import Tap
from gpulayer_nb.errors import ClusterError, UsageError
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.records.connection_file import read_if_whole
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import Notice, RunStarted
from gpulayer_nb.records.run_folder import RunFolder
from gpulayer_nb.records.run_spec import RunSpec
from gpulayer_nb.shipping.blobs import BlobStore
from gpulayer_nb.shipping.free_names import bound_names, free_names
from gpulayer_nb.shipping.packer import Packer
from gpulayer_nb.shipping.shipment import Shipment
from gpulayer_nb.shipping.unpacker import Unpacker

# What every rank has under these names is its own.
RESERVED = frozenset({"rank", "local_rank", "node_rank", "world_size", "device", "dist", "torch"})
_INLINE_BYTES = 256 * 1024  # a bigger shipment goes through a file, once for the machine instead of once a rank


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
        self._listener: RunListener | None = None
        self._driver: Driver | None = None
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
        driver = self._driver
        if driver is None:
            return False
        driver.request_stop()
        return True

    def hang_report(self) -> HangReport | None:
        """Where every rank of the run that is on is now; None if no run is on."""
        driver = self._driver
        return None if driver is None else driver.hang_report()

    def run(
        self, request: RunRequest, run_id: str, folder: RunFolder, history: RunHistory, say: Say, refresh: Callable[[], None]
    ) -> SessionOutcome:
        """Runs a request to its end; raises only for what keeps it from starting.

        Args:
            history: takes in every record; a view reads it.
            say: told in a few words what a start is waiting for.
            refresh: called about ten times a second while the ranks work, on this thread.
        """
        if not self._busy.acquire(blocking=False):
            raise UsageError("Another run of this notebook is on. Next: wait for it, or stop it with `%gpulayer stop`.")
        try:
            return self._run(request, run_id, folder, history, say, refresh)
        finally:
            self._busy.release()

    def _run(
        self, request: RunRequest, run_id: str, folder: RunFolder, history: RunHistory, say: Say, refresh: Callable[[], None]
    ) -> SessionOutcome:
        before = self.topology
        group = self._group.ensure(request.topology, request.accelerator, request.group_timeout_seconds, dict(request.env), say)
        if group.fresh:
            self._forget()
        packer = self._packer = self._packer or Packer(self.namespace, BlobStore(self._blobs()), reserved=RESERVED)
        shipment = self._pack(packer, request)
        history.apply(self._describe(request, run_id, group))
        if group.fresh and before is not None:
            history.apply(Notice(text=_new_processes(before, request.topology)))
        wake = threading.Event()
        connection = self.cluster.connection
        if connection is None:
            raise ClusterError("The embedded cluster went away. Next: run the cell again.")
        numbers = connection.engines()
        ranks = {
            numbers[assignment.engine]: assignment.place.rank for assignment in group.assignments if assignment.engine in numbers
        }
        listener = self._listener = RunListener(run_id, ranks, history, wake.set)
        self._listen()
        driver = self._driver = Driver(
            connection,
            group,
            listener,
            wake,
            kill=self.cluster.kill,
            death_of=self.cluster.death_of,
            is_gone=self.cluster.is_gone,
            can_ask=request.mode != "ranks",
            refresh=refresh,
            timeout_seconds=request.timeout_seconds,
            stopping=history.mark_stopping,
            stalled_seconds=history.stalled_seconds,
            warn=lambda text: history.apply(Notice(time=time.time(), text=text, level="warning")),
        )
        try:
            outcome = driver.run(self._specs(request, run_id, folder, group, shipment))
        finally:
            self._driver = None
            self._listener = None
            connection.forget_results()
        if not outcome.group_is_whole:
            self._group.renew()
        results = outcome.results
        model = self._load(results[0].model) if 0 in results and results[0].model else None
        values = {rank: self._load(result.value) for rank, result in results.items() if result.value}
        if len(results) == group.topology.world_size and all(result.has_names for result in results.values()):
            packer.commit(shipment)  # frees the files of what came back too, so it comes after them
            if all(result.state == "finished" for result in results.values()):
                # the ranks have given these names values of their own: an older one of the notebook must not replace them
                packer.mark_synced(*bound_names(request.python))
        if request.mode == "train" and model is None:
            packer.send_again(request.names.model)  # half trained on the ranks, and as before in the notebook
        return SessionOutcome(group, outcome, listener, model, values)

    def _pack(self, packer: Packer, request: RunRequest) -> Shipment:
        if not request.sync:
            return Shipment()
        if request.mode == "fit":
            return packer.pack_values(request.values)
        return packer.pack_cell(request.python + _uses_of_a_fit(request))

    def returned(self, name: str) -> None:
        """The notebook's `name` and the ranks' are the same now."""
        if self._packer is not None:
            self._packer.mark_synced(name)

    def _load(self, dump: bytes) -> Any:
        """An object that a rank sent back."""
        shipment: Shipment = pickle.loads(dump)
        unpacked = self._unpacker.unpack(shipment, overwrite=False)
        if self._packer is not None and unpacked.names:
            self._packer.mark_synced(*unpacked.names)
        return unpacked.values["value"]

    def _specs(self, request: RunRequest, run_id: str, folder: RunFolder, group: ReadyGroup, shipment: Shipment) -> list[RunSpec]:
        packed: bytes | None = None if shipment.is_empty else pickle.dumps(shipment)
        path: str | None = None
        if packed is not None and len(packed) > _INLINE_BYTES:
            file = self._blobs() / f"shipment-{run_id}"
            file.write_bytes(packed)
            packed, path = None, str(file)
        parts = _parts_spoken_of(request, self.namespace) if request.mode == "train" else None
        everyone = range(group.topology.world_size)
        chosen = everyone if request.only_ranks is None else request.only_ranks
        return [
            RunSpec(
                run_id=run_id,
                mode=request.mode,
                topology=group.topology,
                place=group.topology.place(rank),
                group=group.spec,
                accelerator=group.accelerator,
                source=request.source if rank in chosen else "",  # the others only join the group
                cell=request.cell,
                shipment=packed,
                shipment_path=path,
                blob_folder=str(self._blobs()),
                folder=str(folder.path),
                options=request.options,
                names=request.names,
                parts=parts,
                collect=request.collect,
            )
            for rank in everyone
        ]

    def _describe(self, request: RunRequest, run_id: str, group: ReadyGroup) -> RunStarted:
        return RunStarted(
            time=time.time(),
            run_id=run_id,
            mode="ranks" if request.mode == "ranks" else "train",
            num_nodes=group.topology.num_nodes,
            devices=group.topology.devices,
            backend=group.spec.backend,
            accelerator=group.accelerator,
            simulated=True,
            workers=tuple(assignment.worker for assignment in group.assignments),
            device_names=group.device_names,
            pids=tuple(group.identity(rank).pid for rank in range(group.topology.world_size)),
        )

    def _blobs(self) -> Path:
        if self.cluster.folder is None:
            raise ClusterError("The embedded cluster is not up. Next: run the cell again.")
        return self.cluster.folder.blobs

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
        listener = self._listener
        if listener is not None:
            listener.hear(topic, message)


def _uses_of_a_fit(request: RunRequest) -> str:
    """A training cell uses the parts of its fit even where it does not write their names."""
    names = request.names
    parts = (names.model, names.train_loader, names.val_loader, names.loss_fn, names.optimizer) if request.mode == "train" else ()
    return "".join(f"\n{name}" for name in parts)


def _parts_spoken_of(request: RunRequest, namespace: Mapping[str, Any]) -> frozenset[str]:
    """Optional parts that the cell names; a validation loader of the notebook counts too.

    The ranks may have others from an earlier cell, such as a scheduler of an optimizer that is no longer used.
    """
    names = request.names
    spoken_of = free_names(request.python) | bound_names(request.python)
    return frozenset(
        name for name in names.optional if name in spoken_of or (name == names.val_loader and namespace.get(name) is not None)
    )


def _new_processes(before: Topology, now: Topology) -> str:
    if before == now:
        return "A rank that had ended was replaced: its variables are gone, and those of the notebook were sent again to all."
    return f"{now}: new processes, so the variables of the former {before.world_size} ranks are gone."
