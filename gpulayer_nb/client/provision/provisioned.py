"""A cluster that this notebook has brought up on other machines: a controller of ours, and workers that Slurm or ssh started.

Runs in the kernel. Owns the order of coming up and going down; in between it is a running cluster like any other, a target by its
name.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpulayer_nb.client.cluster import EngineWatch, HandedOver, Say
from gpulayer_nb.client.provision.own_controller import OwnController
from gpulayer_nb.client.provision.slurm import SlurmWorkers, node_address
from gpulayer_nb.client.provision.ssh import SshWorkers, host_address
from gpulayer_nb.client.provision.wishes import SlurmWishes, SshWishes, Wishes
from gpulayer_nb.client.provision.workers import StartedWorkers
from gpulayer_nb.client.remote import RemoteCluster
from gpulayer_nb.errors import ClusterError
from gpulayer_nb.link.address import address_towards
from gpulayer_nb.link.connection import Connection
from gpulayer_nb.plan.topology import count
from gpulayer_nb.records import wire
from gpulayer_nb.records.worker_state import EngineDeath

_LOOK_SECONDS = 0.25  # between two looks at first; Slurm's controller serves many, so a long wait is looked at less often
_LONGEST_LOOK_SECONDS = 5.0


class ProvisionedCluster:
    """`up` makes one; `end` ends its workers and its controller."""

    def __init__(self, wishes: Wishes) -> None:
        self.wishes = wishes
        self._controller: OwnController | None = None
        self._workers: StartedWorkers | None = None

    @property
    def name(self) -> str:
        return self.wishes.name

    def up(self, say: Say) -> None:
        """All workers have joined when this returns.

        Raises:
            ClusterError: they do not come; nothing is left running then.
        """
        wishes = self.wishes
        address = wishes.address or self._address()
        try:
            self._controller = OwnController(wishes.name, address, wishes.ports)
            info = self._controller.start()
            say(f"controller at {address}")
            workers = self._workers = self._made(self._controller)
            workers.start(info, say)
            self._wait(workers, RemoteCluster(wishes.name, self._controller.folder.client_file), say)
        except BaseException:
            self.end()  # an interrupt too leaves nothing half started
            raise

    def _address(self) -> str:
        """Which of our addresses the nodes reach us by."""
        wishes = self.wishes
        node = node_address(wishes) if isinstance(wishes, SlurmWishes) else host_address(wishes)  # type: ignore[arg-type]
        address = address_towards(node) if node else None
        if address is None:
            raise ClusterError(
                f"It is not known by which address {node or 'the nodes'} would reach this machine. "
                "Next: give it with `--controller-address`."
            )
        return address

    def _made(self, controller: OwnController) -> StartedWorkers:
        if isinstance(self.wishes, SlurmWishes):
            return SlurmWorkers(self.wishes, controller.folder.path)
        assert isinstance(self.wishes, SshWishes)
        return SshWorkers(self.wishes, controller.folder.logs)

    def _wait(self, started: StartedWorkers, cluster: RemoteCluster, say: Say) -> None:
        """Until as many workers as are wanted have joined and loaded torch."""
        wanted, limit = self.wishes.nodes, self.wishes.wait_seconds
        began, shown, look = time.monotonic(), "", _LOOK_SECONDS
        try:
            while True:
                workers = cluster.workers()
                if len([worker for worker in workers if worker.is_ready]) >= wanted:
                    return
                state = started.progress()
                joined = f"{len(workers)} of {count(wanted, 'worker')} joined" if workers else ""
                text = " · ".join(filter(None, (state, joined)))
                if text and text != shown:
                    say(text)
                    shown, look = text, _LOOK_SECONDS
                if time.monotonic() - began > limit:
                    raise ClusterError(
                        f"{len(workers)} of {count(wanted, 'worker')} joined in {limit:.0f} s{f'; {state}' if state else ''}. "
                        "It was taken down. Next: a longer `--max-wait`, or fewer nodes."
                    )
                time.sleep(look)
                look = min(look * 1.2, _LONGEST_LOOK_SECONDS)
        finally:
            cluster.end()

    def check(self) -> None:
        """Raises ClusterError if something of it has ended."""
        why = self._workers.ended() if self._workers is not None else "it was taken down"
        if why is None and (self._controller is None or not self._controller.is_up):
            why = "its controller has ended"
        if why is not None:
            raise ClusterError(
                f"Cluster {self.name} is no longer there: {why}. Next: `%gpulayer up --target {self.name} …` again."
            )

    def watch(self, watch: EngineWatch) -> EngineWatch:
        """The same watch, which also knows what became of the workers."""
        assert self._workers is not None
        return _Watch(watch, self._workers)

    def hand_over(self, ranks: HandedOver) -> HandedOver:
        """The same ranks together with what keeps this cluster alive."""
        assert self._controller is not None
        assert self._workers is not None
        return _Handed(ranks, (self._controller.lease, *self._workers.leases))

    def let_go(self) -> None:
        """Another process keeps it alive now: it is no longer ours to end."""
        if self._workers is not None:
            self._workers.let_go()
        if self._controller is not None:
            self._controller.let_go()
        self._workers = self._controller = None

    def end(self) -> None:
        workers, self._workers = self._workers, None
        controller, self._controller = self._controller, None
        if workers is not None:
            workers.end()
        if controller is not None:
            controller.end()


@dataclass(frozen=True)
class _Handed:
    """A HandedOver. The leases end with the process that inherits them."""

    ranks: HandedOver
    leases: tuple[int, ...]

    @property
    def client_file(self) -> Path:
        return self.ranks.client_file

    @property
    def inherits(self) -> tuple[int, ...]:
        return (*self.ranks.inherits, *self.leases)

    def take(self, connection: Connection) -> EngineWatch:
        return self.ranks.take(connection)

    def leave(self) -> None:
        self.ranks.leave()


class _Watch:
    """An EngineWatch."""

    def __init__(self, inner: EngineWatch, workers: StartedWorkers) -> None:
        self._inner, self._workers = inner, workers

    def is_gone(self, engine: str) -> bool:
        return self._workers.is_lost(_worker(engine)) or self._inner.is_gone(engine)

    def is_cut_off(self, engine: str) -> bool:
        return self._workers.is_lost(_worker(engine)) or self._inner.is_cut_off(engine)

    def death_of(self, engine: str) -> EngineDeath | None:
        return None if self._workers.is_lost(_worker(engine)) else self._inner.death_of(engine)

    def why_lost(self, engine: str) -> str | None:
        return self._workers.why_lost(_worker(engine)) or self._inner.why_lost(engine)

    def kill(self, engines: Sequence[str]) -> None:
        self._inner.kill(engines)


def _worker(engine: str) -> str:
    return wire.name_of_key(wire.EngineIdentity.of(engine).worker)


class ProvisionedClusters:
    """Those of one notebook, by name. They outlive a change of target, and end with `%gpulayer down`."""

    def __init__(self) -> None:
        self._clusters: dict[str, ProvisionedCluster] = {}

    def add(self, wishes: Wishes, say: Say) -> None:
        """Brings one up. One of this name that can hold no more is taken down first.

        Raises:
            ClusterError: it does not come up.
        """
        old = self._clusters.pop(wishes.name, None)
        if old is not None:
            if old.wishes == wishes and _is_whole(old):
                self._clusters[wishes.name] = old
                return
            say(f"taking the former {wishes.name} down")
            old.end()
        made = ProvisionedCluster(wishes)
        made.up(say)
        self._clusters[wishes.name] = made

    def check(self, target: str) -> None:
        """Raises ClusterError if `target` is one of these and is no longer there."""
        cluster = self._clusters.get(target)
        if cluster is not None:
            cluster.check()

    def watch(self, target: str, watch: EngineWatch) -> EngineWatch:
        cluster = self._clusters.get(target)
        return watch if cluster is None else cluster.watch(watch)

    def hand_over(self, target: str, ranks: HandedOver) -> HandedOver:
        cluster = self._clusters.get(target)
        return ranks if cluster is None else cluster.hand_over(ranks)

    def let_go(self, target: str) -> None:
        cluster = self._clusters.pop(target, None)
        if cluster is not None:
            cluster.let_go()

    def end(self) -> None:
        while self._clusters:
            self._clusters.popitem()[1].end()


def _is_whole(cluster: ProvisionedCluster) -> bool:
    try:
        cluster.check()
    except ClusterError:
        return False
    return True
