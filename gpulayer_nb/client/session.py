"""One notebook's link to its ranks: cluster, group, what was shipped, the run that is on.

Runs in the kernel. Owns the order of a run: engines up, names packed, sent, waited for. Must not know how a run is shown.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gpulayer_nb.client.cluster import Cluster, HandedOver, Say
from gpulayer_nb.client.conduct import Conduct
from gpulayer_nb.client.driver import DriverOutcome
from gpulayer_nb.client.embedded import EmbeddedCluster
from gpulayer_nb.client.hang_report import HangReport
from gpulayer_nb.client.interrupts import Interrupts
from gpulayer_nb.client.listener import RunListener
from gpulayer_nb.client.provision.provisioned import ProvisionedClusters
from gpulayer_nb.client.provision.wishes import Wishes
from gpulayer_nb.client.rank_group import RankGroup, ReadyGroup
from gpulayer_nb.client.run_keeper import RunKeeper
from gpulayer_nb.client.run_request import RunRequest
from gpulayer_nb.client.run_specs import rank_specs, run_started, uses_of_a_fit
from gpulayer_nb.client.targets import REMOTE, open_target
from gpulayer_nb.errors import ClusterError, UsageError
from gpulayer_nb.link.tap import Tap
from gpulayer_nb.plan.accelerator import note_on_choice
from gpulayer_nb.plan.topology import Topology, count
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
    """What the process that drives a detached run needs. `cluster.inherits` are file descriptors it has to have."""

    mode: str
    group: ReadyGroup
    specs: list[RunSpec]
    cluster: HandedOver
    timeout_seconds: float | None


class Session:
    """Belongs to one namespace (a notebook's). One run at a time."""

    cluster: Cluster

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace
        self._use(EmbeddedCluster())
        self._packer: Packer | None = None
        self._unpacker = Unpacker(namespace)
        self._tap: Tap | None = None
        self._tapped: dict[str, Any] | None = None
        self._conduct: Conduct | None = None
        self._provisioned = ProvisionedClusters()
        self._busy = threading.Lock()
        self.last_training: RunRequest | None = None  # what `%gpulayer export` writes down

    @property
    def topology(self) -> Topology | None:
        """The shape of the ranks that are up, if any are."""
        return self.cluster.topology

    @property
    def target(self) -> str | None:
        """Where cells run that name no target: on the cluster chosen last, until `down`; None if none is chosen."""
        return self.cluster.target if self.cluster.is_elsewhere or self.topology is not None else None

    def up(self, topology: Topology, accelerator: str, target: str, say: Say) -> bool:
        """Brings ranks of this shape up; True if they are new processes."""
        self._go_to(target, say)
        fresh = self.cluster.ensure(topology, accelerator, say)
        if fresh:
            self._forget()
        return fresh

    def begin(self, request: RunRequest) -> None:
        """Where `run` will need new ranks on this machine, their processes start now."""
        if isinstance(self.cluster, EmbeddedCluster) and request.target == self.cluster.target:
            with contextlib.suppress(UsageError), self._alone():  # another run is on: `run` says so
                self.cluster.begin(request.topology)

    def provision(self, wishes: Wishes, say: Say) -> None:
        """Brings a cluster up on other machines; from then on it is a target by its name, until `down`."""
        with self._alone():
            self._provisioned.add(wishes, say)

    def _go_to(self, target: str, say: Say) -> None:
        """Makes the cluster that `target` names the present one; ranks of another are left, and end."""
        here = self.cluster.target
        stays = target == here or (target == REMOTE and self.cluster.is_elsewhere)
        self._provisioned.check(here if stays else target)
        if stays:
            return
        chosen = open_target(target)
        if self.topology is not None:
            say(f"leaving the ranks on {self.cluster.target}")
        self._leave()
        self._use(chosen)

    def _use(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._group = RankGroup(cluster)

    def down(self) -> None:
        """Ends the ranks and everything that belongs to them, clusters that this notebook has brought up too."""
        self._leave()
        self._provisioned.end()

    def _leave(self) -> None:
        self._forget()
        self._packer = None
        if self._tap is not None:
            self._tap.end()
            self._tap = self._tapped = None
        self.cluster.end()
        if self.cluster.is_elsewhere:
            self._use(EmbeddedCluster())

    def stop(self) -> bool:
        """Asks the run that is on to stop, from any thread; again for one stage harder. False if no run is on."""
        conduct = self._conduct
        if conduct is None:
            return False
        conduct.driver.request_stop()
        return True

    def ask_rank_zero(self, request: str, content: dict[str, Any], timeout_seconds: float) -> dict[str, Any]:
        """Rank 0's answer to a control request, busy or not; nothing if no ranks are up or it does not answer in time."""
        engines = self._group.engines
        if self.topology is None or not engines:
            return {}
        connection = self.cluster.connection
        if engines[0] not in connection.engines():
            return {}
        return connection.request(engines[:1], request, content, timeout_seconds).get(engines[0], {})

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
            conduct = self._conduct = Conduct(
                connection,
                self._provisioned.watch(self.cluster.target, self.cluster.watch()),
                prepared.group,
                run_id,
                history,
                can_ask=request.mode != "ranks",
                refresh=refresh,
                timeout_seconds=request.timeout_seconds,
                presses=lambda: interrupts.presses,
                keeper=RunKeeper.for_specs(folder, prepared.specs),
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
        self._go_to(request.target, say)
        before = self.topology
        group = self._group.ensure(request.topology, request.accelerator, request.group_timeout_seconds, dict(request.env), say)
        if group.fresh:
            self._forget()
        packer = self._packer = self._packer or Packer(self.namespace, BlobStore(self.cluster.blobs), reserved=RESERVED)
        shipment = self._pack(packer, request)
        if request.mode in ("train", "fit"):
            self.last_training = request
        started = run_started(request, run_id, group)
        try:
            folder.append(started)
        except OSError:
            if request.mode != "ranks":  # what such a cell has to say is in the notebook: it needs no record on a full disk
                raise
        history.apply(started)
        if group.fresh and before is not None:
            history.apply(Notice(text=_new_processes(before, request.topology)))
        if note := note_on_choice(request.accelerator, group.accelerator, request.topology, mps=group.has_mps):
            history.apply(Notice(text=note))
        specs = self._specs(request, run_id, folder, group, shipment)
        return _Prepared(group, packer, shipment, specs)

    def _specs(self, request: RunRequest, run_id: str, folder: RunFolder, group: ReadyGroup, shipment: Shipment) -> list[RunSpec]:
        specs = rank_specs(request, run_id, folder, group, shipment, self.cluster, self.namespace)
        if not specs[0].folder:
            first = group.assignments[0]
            where = {"client_file": str(self.cluster.client_file), "worker": first.key, "name": first.worker}
            folder.elsewhere.write_text(json.dumps(where))
        return specs

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
            target = self.cluster.target
            handed = self._provisioned.hand_over(target, self.cluster.hand_over())
            launch(DetachedRun(request.mode, prepared.group, prepared.specs, handed, request.timeout_seconds))
            self.cluster.let_go()
            self._provisioned.let_go(target)
            self._leave()

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

    def _forget(self) -> None:
        """The ranks are new processes: they have nothing, and no group."""
        self._group.renew()
        if self._packer is not None:
            self._packer.forget()

    def _listen(self) -> None:
        file = self.cluster.client_file
        info = read_if_whole(file)
        if info is None:
            raise ClusterError(f"The controller's connection file is gone: {file}. Next: `%gpulayer down`, then run again.")
        if self._tap is not None and self._tapped == info:
            return
        if self._tap is not None:
            self._tap.end()
        self._tap = Tap(info, self._hear)
        self._tap.start()
        self._tapped = info

    def _hear(self, topic: str, message: dict[str, Any]) -> None:
        conduct = self._conduct
        if conduct is not None:
            conduct.listener.hear(topic, message)


def _new_processes(before: Topology, now: Topology) -> str:
    if before == now:
        return "A rank that had ended was replaced: its variables are gone, and those of the notebook were sent again to all."
    return f"{now}: new processes, so the variables of the former {count(before.world_size, 'rank')} are gone."
