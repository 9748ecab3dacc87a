"""Workers and ranks as text: who is up, who is who. Reads a session, returns text of at most 80 columns or so."""

from __future__ import annotations

from collections.abc import Sequence

from gpulayer_nb.client.session import Session
from gpulayer_nb.client.targets import open_target
from gpulayer_nb.plan.placement import by_name
from gpulayer_nb.plan.table import aligned
from gpulayer_nb.plan.topology import count
from gpulayer_nb.plan.workers import Worker

_NONE_UP = (
    "No ranks are up. They start with the first `%%gpulayer` or `%%ranks` cell, or with `%gpulayer up --nodes 2 --devices 2`."
)


def workers_table(session: Session) -> str:
    workers = session.cluster.workers() if session.target is not None else []
    return _workers(workers) if workers else _NONE_UP


def workers_of(target: str) -> str:
    """The workers of a running cluster, as a table."""
    cluster = open_target(target)
    try:
        workers = cluster.workers()
    finally:
        cluster.end()
    if not workers:
        return f"No worker has joined {target}. Next: `gpulayer worker start` on each machine that is to run ranks."
    return _workers(workers)


def _workers(workers: Sequence[Worker]) -> str:
    head = ("worker", "address", "host", "torch", "python", "backends", "devices", "engines", "")
    return aligned(head, [_row(worker) for worker in sorted(workers, key=by_name)])


def _row(worker: Worker) -> tuple[str, ...]:
    lent = worker.devices if worker.devices is not None else len(worker.engines)
    devices = f"{count(worker.cuda_devices, 'GPU')}" if worker.cuda_devices else f"{lent} × cpu"
    said = ["simulated nodes"] if worker.embedded else []
    if not worker.is_ready:
        said.append("loading torch")
    said += [f"{len(slots)} busy with {by}" for by, slots in _by_client(worker).items()]
    return (
        worker.name, worker.address, worker.host, worker.torch_version, worker.python_version,
        " ".join(worker.backends), devices, str(len(worker.engines)), ", ".join(said),
    )  # fmt: skip


def _by_client(worker: Worker) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for slot, by in worker.taken.items():
        found.setdefault(by, []).append(slot)
    return found


def ranks_table(session: Session) -> str:
    """The table of ranks, and the picture node → rank → device."""
    topology = session.topology
    if topology is None:
        return _NONE_UP
    ranks = session.cluster.ranks("auto")
    rows = [
        (
            str(a.place.rank),
            str(a.place.node_rank),
            str(a.place.local_rank),
            a.worker,
            f"cuda:{a.place.local_rank}" if ranks.accelerator == "cuda" else ranks.accelerator,
        )
        for a in ranks.assignments
    ]
    is_simulated = topology.num_nodes > 1 and any(a.simulated for a in ranks.assignments)
    simulated = " (simulated nodes: groups of processes on this machine)" if is_simulated else ""
    tree = []
    for node in range(topology.num_nodes):
        on_node = rows[node * topology.devices : (node + 1) * topology.devices]
        tree.append(f"node {node}" if is_simulated else f"node {node} · {on_node[0][3]}")
        tree += [f" {'└' if row is on_node[-1] else '├'}─ rank {row[0]} ── {row[4]}" for row in on_node]
    return f"{topology}{simulated}\n\n{aligned(('rank', 'node', 'local rank', 'worker', 'device'), rows)}\n\n" + "\n".join(tree)
