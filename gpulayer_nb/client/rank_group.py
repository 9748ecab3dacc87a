"""The ranks of the present shape and the process group they share between cells.

Runs in the kernel. Owns which engine is which rank and the group's key; a new key makes the ranks build a new group.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from gpulayer_nb.client.cluster import Cluster, Say
from gpulayer_nb.errors import ClusterError
from gpulayer_nb.plan.accelerator import backend_for
from gpulayer_nb.plan.assignment import RankAssignment
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.records.call import OPEN_STORE
from gpulayer_nb.records.run_spec import GroupSpec
from gpulayer_nb.records.wire import EngineIdentity

DEFAULT_TIMEOUT_SECONDS = 120.0  # of a collective: our own abort is much faster; this is for a network that swallows packets
_STORE_SECONDS = 20.0


@dataclass(frozen=True)
class ReadyGroup:
    """Ranks that can run a cell now. `fresh` says that at least one is a new process."""

    topology: Topology
    assignments: tuple[RankAssignment, ...]
    spec: GroupSpec
    accelerator: str
    fresh: bool
    has_mps: bool = False

    @property
    def engines(self) -> tuple[str, ...]:
        """ipyparallel uuids in rank order."""
        return tuple(assignment.engine for assignment in self.assignments)

    def identity(self, rank: int) -> EngineIdentity:
        return EngineIdentity.of(self.assignments[rank].engine)

    @property
    def device_names(self) -> tuple[str, ...]:
        if self.accelerator != "cuda":
            return tuple(self.accelerator for _ in self.assignments)
        return tuple(f"cuda:{assignment.place.local_rank}" for assignment in self.assignments)


class RankGroup:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._spec: GroupSpec | None = None
        self._engines: tuple[str, ...] = ()

    @property
    def engines(self) -> tuple[str, ...]:
        """ipyparallel uuids of the present ranks, in rank order; empty before the first run."""
        return self._engines

    def renew(self) -> None:
        """The group was cut or lost a member: the next cell gets a new one."""
        self._spec = None

    def ensure(
        self, topology: Topology, accelerator: str, timeout_seconds: float | None, env: dict[str, str], say: Say
    ) -> ReadyGroup:
        """Engines of this shape and a group's description; the ranks build the group when they read it."""
        fresh = self._cluster.ensure(topology, accelerator, say)
        ranks = self._cluster.ranks(accelerator)
        chosen, assignments = ranks.accelerator, ranks.assignments
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
            spec = self._spec = self._describe(assignments[0], backend_for(chosen), timeout, env)
            self._engines = engines
        return ReadyGroup(topology, assignments, spec, chosen, fresh, ranks.has_mps)

    def _describe(self, first: RankAssignment, backend: str, timeout: float, env: dict[str, str]) -> GroupSpec:
        opened = self._cluster.connection.call(first.engine, OPEN_STORE, first.address)
        try:
            port = opened.get(timeout=_STORE_SECONDS)
        except TimeoutError as error:
            raise ClusterError(
                f"Rank 0 on worker {first.worker} opened no rendezvous port in {_STORE_SECONDS:.0f} s. "
                "Next: `%gpulayer down`, then run again."
            ) from error
        return GroupSpec(
            key=secrets.token_hex(6),
            backend=backend,
            master_addr=first.address,
            master_port=port,
            timeout_seconds=timeout,
            env=env,
        )
