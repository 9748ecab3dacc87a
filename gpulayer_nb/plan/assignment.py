"""Which engine holds which rank.

Runs in the kernel. Owns the rule `rank = node_rank * devices + local_rank`; on the embedded worker a node is a group of
engines. Must not know how engines are started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpulayer_nb.errors import PlanError
from gpulayer_nb.plan.topology import RankPlace, Topology, count
from gpulayer_nb.plan.workers import Worker


@dataclass(frozen=True)
class RankAssignment:
    place: RankPlace
    engine: str  # ipyparallel uuid
    worker: str


def assign(topology: Topology, workers: Sequence[Worker]) -> tuple[RankAssignment, ...]:
    """One assignment per rank, in rank order.

    A real worker is one node; the embedded worker is cut into `num_nodes` simulated nodes. Workers are taken in the order of
    their names.

    Raises:
        PlanError: too few engines, or workers that cannot form a group; with the numbers of each.
    """
    embedded = [worker for worker in workers if worker.embedded]
    if embedded:
        worker = embedded[0]
        if len(worker.engines) < topology.world_size:
            raise PlanError(
                f"{topology} asked, {count(len(worker.engines), 'engine')} on worker {worker.name}. Nothing was started."
            )
        return tuple(RankAssignment(place, worker.engines[place.rank], worker.name) for place in topology.places())
    able = sorted((worker for worker in workers if len(worker.engines) >= topology.devices), key=lambda worker: worker.name)
    if len(able) < topology.num_nodes:
        table = "; ".join(f"{worker.name}: {count(len(worker.engines), 'engine')}" for worker in workers) or "no worker"
        raise PlanError(
            f"{topology} asked, but {count(len(able), 'worker')} of {len(workers)} can host "
            f"{count(topology.devices, 'rank')} ({table}). "
            "Nothing was started. Next: start more with `gpulayer worker start`, or ask for fewer nodes."
        )
    nodes = able[: topology.num_nodes]
    versions = {(worker.torch_version, worker.python_version) for worker in nodes}
    if len(versions) > 1:
        table = ", ".join(f"{worker.name} has torch {worker.torch_version} on Python {worker.python_version}" for worker in nodes)
        raise PlanError(f"Workers differ: {table}. Nothing was sent. Next: install the same torch and Python on each.")
    return tuple(
        RankAssignment(place, nodes[place.node_rank].engines[place.local_rank], nodes[place.node_rank].name)
        for place in topology.places()
    )
