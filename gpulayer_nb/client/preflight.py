"""Every pair of a run's workers tries to connect before a process group is made: a wrong address is told in seconds, not minutes.

Runs in the kernel; the workers do the trying.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpulayer_nb.errors import ClusterError
from gpulayer_nb.link.connection import Connection
from gpulayer_nb.plan.addresses import endpoint
from gpulayer_nb.plan.workers import Worker
from gpulayer_nb.records import wire
from gpulayer_nb.records.worker_state import WorkerState

SECONDS = 3.0


def check_pairs(
    connection: Connection, workers: Sequence[Worker], states: Mapping[str, WorkerState], supervisors: Mapping[str, str]
) -> None:
    """Each worker connects to every other on its advertised address.

    Args:
        states: by key; where each listens.
        supervisors: ipyparallel uuids by key.

    Raises:
        ClusterError: a pair cannot; names each one and its address.
    """
    if len(workers) < 2:
        return
    contents = {}
    for worker in workers:
        others = [states[other.key] for other in workers if other.key != worker.key]
        targets = [[state.worker, state.address, state.probe_port, state.probe_token] for state in others]
        contents[supervisors[worker.key]] = {"targets": targets, "seconds": SECONDS}
    replies = connection.request_each(contents, wire.PROBE, SECONDS + 2.0)
    names = {worker.key: worker.name for worker in workers}
    failed = []
    for worker in workers:
        reply = replies.get(supervisors[worker.key])
        if reply is None:
            failed.append(f"{worker.name} does not answer")
            continue
        for key, why in reply["failed"].items():
            failed.append(f"{worker.name} → {names[key]}, {endpoint(states[key].address, states[key].probe_port)}: {why}")
    if failed:
        shown = "\n".join(f"  {line}" for line in failed[:12]) + (f"\n  and {len(failed) - 12} more" if failed[12:] else "")
        raise ClusterError(
            "Workers cannot reach each other, so no process group was made. Next: open all TCP ports between them, or start "
            f"them with the address that the others can reach (`gpulayer worker start --advertise-address`).\n{shown}"
        )
