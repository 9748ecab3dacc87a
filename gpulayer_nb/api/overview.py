"""Workers and ranks as text: who is up, who is who. Reads a session, returns text of at most 80 columns or so."""

from __future__ import annotations

from collections.abc import Sequence

from gpulayer_nb.client.session import Session
from gpulayer_nb.plan.assignment import assign
from gpulayer_nb.plan.topology import count

_NONE_UP = (
    "No ranks are up. They start with the first `%%gpulayer` or `%%ranks` cell, or with `%gpulayer up --nodes 2 --devices 2`."
)


def workers_table(session: Session) -> str:
    if session.topology is None:
        return _NONE_UP
    worker = session.cluster.worker()
    devices = f"{count(worker.cuda_devices, 'GPU')}" if worker.cuda_devices else "cpu"
    return _table(
        ("worker", "address", "torch", "python", "backends", "devices", "engines"),
        [
            (
                worker.name, worker.address, worker.torch_version, worker.python_version,
                " ".join(worker.backends), devices, str(len(worker.engines)),
            )
        ],
    )  # fmt: skip


def ranks_table(session: Session) -> str:
    """The table of ranks, and the picture node → rank → device."""
    topology = session.topology
    if topology is None:
        return _NONE_UP
    worker = session.cluster.worker()
    cuda = worker.cuda_devices >= topology.world_size
    rows = [
        (
            str(a.place.rank),
            str(a.place.node_rank),
            str(a.place.local_rank),
            a.worker,
            f"cuda:{a.place.local_rank}" if cuda else "cpu",
        )
        for a in assign(topology, [worker])
    ]
    simulated = " (simulated nodes: groups of processes on this machine)" if topology.num_nodes > 1 else ""
    tree = []
    for node in range(topology.num_nodes):
        tree.append(f"node {node}")
        on_node = rows[node * topology.devices : (node + 1) * topology.devices]
        tree += [f" {'└' if row is on_node[-1] else '├'}─ rank {row[0]} ── {row[4]}" for row in on_node]
    return f"{topology}{simulated}\n\n{_table(('rank', 'node', 'local rank', 'worker', 'device'), rows)}\n\n" + "\n".join(tree)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    )
