"""What one machine's supervisor tells about its engines, and the order to end some of them.

Runs in whatever process drives a run there. Owns nothing; reads the cluster's state file.
"""

from __future__ import annotations

from gpulayer_nb import process
from gpulayer_nb.client.connection import Connection
from gpulayer_nb.records import wire
from gpulayer_nb.records.cluster_folder import ClusterFolder
from gpulayer_nb.records.worker_state import EngineDeath, WorkerState


class EngineWatch:
    def __init__(self, folder: ClusterFolder, connection: Connection) -> None:
        self._folder, self._connection = folder, connection

    def is_gone(self, pid: int) -> bool:
        """Whether this engine's process has ended."""
        return process.start_ticks(pid) is None

    def death_of(self, pid: int) -> EngineDeath | None:
        """How an engine ended, if its supervisor knows."""
        state = WorkerState.read(self._folder.state)
        return next((death for death in state.deaths if death.pid == pid), None) if state else None

    def kill(self, slots: list[int]) -> None:
        """Ends engines that do not answer; the next start replaces them."""
        workers = [engine for engine in self._connection.engines() if wire.worker_of(engine) is not None]
        self._connection.request(workers, wire.KILL_ENGINES, {"slots": slots}, timeout_seconds=5.0)
