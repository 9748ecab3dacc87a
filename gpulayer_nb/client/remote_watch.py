"""What is known of engines on other machines while a run is on.

Runs in whatever process drives the run. The hub tells of an engine that its worker has buried; a worker that is out of reach is
known by its silence.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from gpulayer_nb.link.beats import Beats
from gpulayer_nb.link.connection import Connection
from gpulayer_nb.link.reach import unreachable
from gpulayer_nb.link.supervisors import ask_workers
from gpulayer_nb.records import wire
from gpulayer_nb.records.worker_state import EngineDeath, WorkerState

SILENT_SECONDS = 6.5  # a worker's own lease ends after 6: whoever is given up here is dead, or dies now
_MISSED_SECONDS = 2.5  # workers are heard once a second
_ASK_SECONDS = 1.0


class RemoteWatch:
    """An EngineWatch for engines of several workers."""

    def __init__(self, info: dict[str, Any], connection: Connection, beats: Beats, names: Mapping[str, str]) -> None:
        self._info, self._connection, self._beats, self._names = info, connection, beats, names
        self._asked = float("-inf")  # when the controller was last looked for
        self._down: str | None = None  # why it was not found

    def is_gone(self, engine: str) -> bool:
        return self._beats.silent_seconds(wire.EngineIdentity.of(engine).worker) > SILENT_SECONDS

    def is_cut_off(self, engine: str) -> bool:
        return self._beats.silent_seconds(wire.EngineIdentity.of(engine).worker) > _MISSED_SECONDS

    def death_of(self, engine: str) -> EngineDeath | None:
        identity = wire.EngineIdentity.of(engine)
        if self._beats.silent_seconds(identity.worker) > SILENT_SECONDS:
            return None
        for reply in ask_workers(self._connection, {identity.worker: {}}, wire.WORKER_STATE, _ASK_SECONDS).values():
            deaths = WorkerState.from_dict(reply["state"]).deaths
            return next((death for death in deaths if death.pid == identity.pid), None)
        return None

    def why_lost(self, engine: str) -> str | None:
        key = wire.EngineIdentity.of(engine).worker
        silent = self._beats.silent_seconds(key)
        name = self._names.get(key, wire.name_of_key(key))
        if left := self._beats.why_left(key):
            return f"worker {name} has ended: {left}"
        if silent > _MISSED_SECONDS and self._controller_is_down():
            return f"{self._down}; its workers end by themselves"
        if silent > _MISSED_SECONDS:
            return (
                f"worker {name} has not been heard for {silent:.0f} s; its machine is down or out of reach, "
                "or its `gpulayer worker` has ended"
            )
        return f"it has stopped answering; worker {name} itself is there"

    def _controller_is_down(self) -> bool:
        """Asked once for all ranks: over a dead network each answer takes its time."""
        if self._beats.all_silent_seconds() < _MISSED_SECONDS:
            return False
        if time.monotonic() - self._asked > 5.0:
            self._asked, self._down = time.monotonic(), unreachable(self._info, seconds=2.0)
        return self._down is not None

    def kill(self, engines: Sequence[str]) -> None:
        slots: dict[str, list[int]] = {}
        for engine in engines:
            identity = wire.EngineIdentity.of(engine)
            slots.setdefault(identity.worker, []).append(identity.slot)
        ask_workers(self._connection, {key: {"slots": of_one} for key, of_one in slots.items()}, wire.KILL_ENGINES, _ASK_SECONDS)
