"""Where a launch's torchrun agents go, by target."""

from __future__ import annotations

from collections.abc import Callable

from gpulayer_nb.client.agent_pool import AgentPool, LocalAgentPool
from gpulayer_nb.client.embedded import EmbeddedCluster
from gpulayer_nb.client.remote import RemoteCluster
from gpulayer_nb.client.targets import open_target
from gpulayer_nb.client.worker_agents import AgentWorker, WorkerAgentPool
from gpulayer_nb.errors import UsageError
from gpulayer_nb.link.supervisors import supervisors_of
from gpulayer_nb.plan.topology import Topology


def pool_for(target: str, topology: Topology, accelerator: str, run_id: str, say: Callable[[str], None]) -> AgentPool:
    """A pool with room for the topology.

    Raises:
        GpuLayerError: there is no such target, or it cannot host the launch.
    """
    cluster = open_target(target)
    if isinstance(cluster, EmbeddedCluster):
        return LocalAgentPool()
    if not isinstance(cluster, RemoteCluster):
        raise UsageError(f"launch runs on `local` and on workers, not on {target}.")
    return _on_workers(cluster, topology, accelerator, run_id, say)


def _on_workers(
    cluster: RemoteCluster, topology: Topology, accelerator: str, run_id: str, say: Callable[[str], None]
) -> AgentPool:
    """One worker a node, claimed for this launch: nobody else's ranks get their devices meanwhile."""
    try:
        placement = cluster.reserve(topology, accelerator, say)
        supervisors = supervisors_of(cluster.connection)
        workers = [
            AgentWorker(
                supervisors[node.worker.key],
                node.worker.name,
                node.worker.address,
                node.worker.interface or "",
                {"CUDA_VISIBLE_DEVICES": ",".join(map(str, node.slots))} if placement.accelerator == "cuda" else {},
            )
            for node in placement.nodes
        ]
    except BaseException:
        cluster.end()
        raise
    return WorkerAgentPool(cluster.connection, workers, run_id, close=cluster.end, say=say)
