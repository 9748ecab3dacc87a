"""What one machine's supervisor tells about its engines, and the order to end some of them.

Runs in whatever process drives a run there. Owns nothing; reads the cluster's state file.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpulayer_nb import process
from gpulayer_nb.link.connection import Connection
from gpulayer_nb.records import wire
from gpulayer_nb.records.cluster_folder import ClusterFolder
from gpulayer_nb.records.worker_state import EngineDeath, WorkerState


class LocalWatch:
    """An EngineWatch for engines of this machine."""

    def __init__(self, folder: ClusterFolder, connection: Connection) -> None:
        self._folder, self._connection = folder, connection

    def is_gone(self, engine: str) -> bool:
        return process.start_ticks(wire.EngineIdentity.of(engine).pid) is None

    def is_cut_off(self, engine: str) -> bool:
        return False

    def death_of(self, engine: str) -> EngineDeath | None:
        pid = wire.EngineIdentity.of(engine).pid
        state = WorkerState.read(self._folder.state)
        return next((death for death in state.deaths if death.pid == pid), None) if state else None

    def why_lost(self, engine: str) -> str | None:
        return None

    def kill(self, engines: Sequence[str]) -> None:
        workers = [engine for engine in self._connection.engines() if wire.worker_of(engine) is not None]
        slots = [wire.EngineIdentity.of(engine).slot for engine in engines]
        self._connection.request(workers, wire.KILL_ENGINES, {"slots": slots}, timeout_seconds=5.0)
