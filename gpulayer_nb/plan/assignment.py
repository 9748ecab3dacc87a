"""Which engine holds which rank.

Runs in the kernel. Owns the rule `rank = node_rank * devices + local_rank`; on the embedded worker a node is a group of
engines. Must not know how engines are started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpulayer_nb.errors import PlanError
from gpulayer_nb.plan.placement import Placement
from gpulayer_nb.plan.topology import RankPlace, Topology, count
from gpulayer_nb.plan.workers import Worker


@dataclass(frozen=True)
class RankAssignment:
    """One rank's engine.

    Attributes:
        engine: ipyparallel uuid.
        worker: the worker's name, as shown.
        key: the worker's key.
        address: where other ranks reach it.
        interface: the network interface that has this address; None leaves the choice to gloo and NCCL.
        simulated: its node is a group of engines on this machine.
    """

    place: RankPlace
    engine: str
    worker: str
    key: str = ""
    address: str = "127.0.0.1"
    interface: str | None = "lo"
    simulated: bool = False


def assign_embedded(topology: Topology, worker: Worker) -> tuple[RankAssignment, ...]:
    """One assignment per rank, in rank order: this machine is cut into `num_nodes` simulated nodes.

    Raises:
        PlanError: an engine is missing.
    """
    if any(place.rank not in worker.engines for place in topology.places()):
        raise PlanError(f"{topology} asked, {count(len(worker.engines), 'engine')} on worker {worker.name}. Nothing was started.")
    return tuple(
        RankAssignment(place, worker.engines[place.rank], worker.name, worker.key, simulated=True) for place in topology.places()
    )


def assign_nodes(topology: Topology, placement: Placement, engines: Mapping[tuple[str, int], str]) -> tuple[RankAssignment, ...]:
    """One assignment per rank, in rank order.

    Args:
        engines: uuid of every engine by its worker's key and slot.
    """
    found = []
    for place in topology.places():
        node = placement.nodes[place.node_rank]
        worker = node.worker
        engine = engines[worker.key, node.slots[place.local_rank]]
        found.append(RankAssignment(place, engine, worker.name, worker.key, worker.address, worker.interface))
    return tuple(found)
