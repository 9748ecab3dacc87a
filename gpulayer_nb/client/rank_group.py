"""The ranks of the present shape and the process group they share between cells.

Runs in the kernel. Owns which engine is which rank and the group's key; a new key makes the ranks build a new group.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from gpulayer_nb.client.connection import Connection
from gpulayer_nb.client.embedded import EmbeddedCluster, Say
from gpulayer_nb.errors import ClusterError
from gpulayer_nb.plan.accelerator import backend_for, choose_accelerator
from gpulayer_nb.plan.assignment import RankAssignment, assign
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.records.call import OPEN_STORE
from gpulayer_nb.records.run_spec import GroupSpec
from gpulayer_nb.records.wire import EngineIdentity

DEFAULT_TIMEOUT_SECONDS = 120.0  # of a collective: our own abort is much faster; this is for a network that swallows packets
_STORE_SECONDS = 20.0
_LOOPBACK = ("127.0.0.1", "lo")


@dataclass(frozen=True)
class ReadyGroup:
    """Ranks that can run a cell now. `fresh` says that at least one is a new process."""

    topology: Topology
    assignments: tuple[RankAssignment, ...]
    spec: GroupSpec
    accelerator: str
    fresh: bool

    @property
    def engines(self) -> tuple[str, ...]:
        """ipyparallel uuids in rank order."""
        return tuple(assignment.engine for assignment in self.assignments)

    def identity(self, rank: int) -> EngineIdentity:
        identity = EngineIdentity.parse(self.assignments[rank].engine)
        if identity is None:
            raise ClusterError(f"Rank {rank} is not one of our engines: {self.assignments[rank].engine}")
        return identity

    @property
    def device_names(self) -> tuple[str, ...]:
        if self.accelerator != "cuda":
            return tuple(self.accelerator for _ in self.assignments)
        return tuple(f"cuda:{assignment.place.local_rank}" for assignment in self.assignments)


class RankGroup:
    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._spec: GroupSpec | None = None
        self._engines: tuple[str, ...] = ()

    def renew(self) -> None:
        """The group was cut or lost a member: the next cell gets a new one."""
        self._spec = None

    def ensure(
        self, topology: Topology, accelerator: str, timeout_seconds: float | None, env: dict[str, str], say: Say
    ) -> ReadyGroup:
        """Engines of this shape and a group's description; the ranks build the group when they read it."""
        fresh = self._cluster.ensure(topology, say)
        worker = self._cluster.worker()
        chosen = choose_accelerator(
            accelerator, topology, cuda_devices=worker.cuda_devices, mps=worker.mps, where=f"worker {worker.name}"
        )
        assignments = assign(topology, [worker])
        engines = tuple(assignment.engine for assignment in assignments)
        timeout = timeout_seconds or DEFAULT_TIMEOUT_SECONDS
        spec = self._spec
        if (
            spec is None
            or engines != self._engines
            or spec.backend != backend_for(chosen)
            or spec.timeout_seconds != timeout
            or spec.env != env
        ):
            spec = self._spec = self._describe(self._connection(), engines, backend_for(chosen), timeout, env)
            self._engines = engines
        return ReadyGroup(topology, assignments, spec, chosen, fresh)

    def _describe(
        self, connection: Connection, engines: tuple[str, ...], backend: str, timeout: float, env: dict[str, str]
    ) -> GroupSpec:
        address, interface = _LOOPBACK
        opened = connection.call(engines[0], OPEN_STORE, address)
        try:
            port = opened.get(timeout=_STORE_SECONDS)
        except TimeoutError as error:
            raise ClusterError(
                f"Rank 0 opened no rendezvous port in {_STORE_SECONDS:.0f} s. Next: `%gpulayer down`, then run again."
            ) from error
        return GroupSpec(
            key=secrets.token_hex(6),
            backend=backend,
            master_addr=address,
            master_port=port,
            timeout_seconds=timeout,
            interface=interface,
            env=env,
        )

    def _connection(self) -> Connection:
        if self._cluster.connection is None:
            raise ClusterError("The embedded cluster is not up. Next: run the cell again.")
        return self._cluster.connection
