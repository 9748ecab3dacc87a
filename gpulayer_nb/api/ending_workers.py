"""Takes a worker out of a cluster from afar: what `gpulayer worker stop` does."""

from __future__ import annotations

import getpass

from gpulayer_nb.client.targets import open_target
from gpulayer_nb.errors import ClusterError, UsageError
from gpulayer_nb.link.supervisors import ask_workers, refusal
from gpulayer_nb.records import wire


def end_worker(target: str, name: str) -> str:
    """The worker's engines and its own process end, on whichever machine it is.

    Raises:
        UsageError: the cluster has no worker of this name; says which it has.
        ClusterError: the worker does not answer, or is all there is of its cluster.
    """
    cluster = open_target(target)
    try:
        workers = {worker.name: worker.key for worker in cluster.workers()}
        if name not in workers:
            raise UsageError(f"{target} has no worker {name}; it has {', '.join(sorted(workers)) or 'none'}.")
        key = workers[name]
        by = f"`gpulayer worker stop` of {getpass.getuser()}"
        if why := refusal(ask_workers(cluster.connection, {key: {"by": by}}, wire.END_WORKER).get(key)):
            raise ClusterError(f"Worker {name} has not ended: it {why}. Next: end its process on its machine.")
        return f"worker {name} ends, and its engines with it"
    finally:
        cluster.end()
