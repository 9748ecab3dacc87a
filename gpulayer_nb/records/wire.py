"""Names used on ipyparallel's channels: topics, message types, engine identities.

Read on both sides. Owns the spelling only.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

RECORDS_TOPIC = "gpulayer.records"  # iopub topic prefix; the run's id follows
RECORDS_MESSAGE = "gpulayer_records"  # content: {"run_id", "rank", "seq", "records": [encoded, ...]}

# control-channel requests an engine answers while its main thread is busy; the reply is "<name>_reply"
ABORT = "gpulayer_abort"  # cut the group's connections: whoever waits in a collective leaves it with an error
INTERRUPT = "gpulayer_interrupt"  # raise KeyboardInterrupt in the run's code
STOP = "gpulayer_stop"  # end the fit after a common step
STACKS = "gpulayer_stacks"  # where the main thread is
STATS = "gpulayer_stats"  # pid, memory, processor time
HISTORY = "gpulayer_history"  # published batches from a sequence number on
ENGINE_REQUESTS = (ABORT, INTERRUPT, STOP, STACKS, STATS, HISTORY)

# control-channel requests a worker's supervisor answers
START_ENGINES = "gpulayer_start_engines"  # content: {"slots": [...], "nodes": n, "devices": d}
KILL_ENGINES = "gpulayer_kill_engines"  # content: {"slots": [...]}
WORKER_STATE = "gpulayer_worker_state"
WORKER_REQUESTS = (START_ENGINES, KILL_ENGINES, WORKER_STATE)

_ENGINE, _WORKER = "gpl", "gplw"


@dataclass(frozen=True, order=True)
class EngineIdentity:
    """What an engine's ipyparallel uuid tells everyone at registration, busy or not."""

    worker: str
    host: str
    slot: int  # place on its worker, 0 …; a replacement takes the slot of the engine it replaces
    pid: int

    def new_uuid(self) -> str:
        return f"{_ENGINE}:{self.worker}:{self.host}:{self.slot}:{self.pid}:{uuid.uuid4().hex[:8]}"

    @classmethod
    def parse(cls, engine_uuid: str) -> EngineIdentity | None:
        """None for an engine that is not ours."""
        parts = engine_uuid.split(":")
        if len(parts) != 6 or parts[0] != _ENGINE:
            return None
        return cls(parts[1], parts[2], int(parts[3]), int(parts[4]))


def new_worker_uuid(worker: str) -> str:
    return f"{_WORKER}:{worker}:{uuid.uuid4().hex[:8]}"


def worker_of(engine_uuid: str) -> str | None:
    """The worker whose supervisor has this ipyparallel uuid; None for any other engine."""
    parts = engine_uuid.split(":")
    return parts[1] if len(parts) == 3 and parts[0] == _WORKER else None
