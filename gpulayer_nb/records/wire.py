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
STATS = "gpulayer_stats"  # processor, memory, GPU, collective: RankStats
HISTORY = "gpulayer_history"  # published batches from a sequence number on
COMPLETE = "gpulayer_complete"  # how the names of this rank go on
INSPECT = "gpulayer_inspect"  # what a name of this rank is
ENGINE_REQUESTS = (ABORT, INTERRUPT, STOP, STACKS, STATS, HISTORY, COMPLETE, INSPECT)

# control-channel requests a worker's supervisor answers; one it will not do is answered with {"refused": why}
START_ENGINES = "gpulayer_start_engines"  # content: {"slots": [...], "nodes": n, "devices": d, "claim": token or None}
KILL_ENGINES = "gpulayer_kill_engines"  # content: {"slots": [...]}
WORKER_STATE = "gpulayer_worker_state"  # reply: {"state": WorkerState}
CLAIM = "gpulayer_claim"  # content: {"token", "by", "slots"}: these engines are for one client now, until it is silent
RENEW = "gpulayer_renew"  # content: {"token"}: the client is still there
RELEASE = "gpulayer_release"  # content: {"token"}: its engines end, others may claim
PROBE = (
    "gpulayer_probe"  # content: {"targets": [[name, address, port, token], ...], "seconds": s}; reply: {"failed": {name: why}}
)
OFFER_FILES = "gpulayer_offer_files"  # content: {"files": {name: bytes}, "keep": [...], "run_folder"}; reply: {"missing", …}
PUT_FILE = "gpulayer_put_file"  # content: {"name", "offset", "size"}, the piece as a buffer
GET_FILE = "gpulayer_get_file"  # content: {"path", "offset", "size"}; reply: {"size": of the whole file}, the piece as a buffer
END_WORKER = "gpulayer_end_worker"  # content: {"by"}: the worker leaves its cluster; its engines end
WORKER_REQUESTS = (
    START_ENGINES, KILL_ENGINES, WORKER_STATE, CLAIM, RENEW, RELEASE, PROBE, OFFER_FILES, PUT_FILE, GET_FILE, END_WORKER,
)  # fmt: skip

BEAT_TOPIC = "gpulayer.beat"
# iopub message of a supervisor, once a second; content: {"worker": key}, in its last one also "left": why it ends
WORKER_BEAT = "gpulayer_worker_beat"

# control-channel requests about a launch's torchrun agents, which a worker's supervisor answers too
AGENT_PREPARE = "gpulayer_agent_prepare"  # content: {"run_id", "root", "script", "folder", "files": {name: sha256}, "address"}
AGENT_FILE = "gpulayer_agent_file"  # content: {"digest", "offset", "data" (base64), "size"}
AGENT_START = "gpulayer_agent_start"  # content: {"order": AgentOrder as JSON}
AGENT_SIGNAL = "gpulayer_agent_signal"  # content: {"run_id", "nodes": [...], "word" (base64)}
AGENT_NEWS = "gpulayer_agent_news"  # content: {"run_id", "offsets": {node: {...}}}; reply: {"news": {node: AgentNews}}
AGENT_REQUESTS = (AGENT_PREPARE, AGENT_FILE, AGENT_START, AGENT_SIGNAL, AGENT_NEWS)

_ENGINE, _WORKER = "gpl", "gplw"


@dataclass(frozen=True, order=True)
class EngineIdentity:
    """What an engine's ipyparallel uuid tells everyone at registration, busy or not."""

    worker: str  # the worker's key
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

    @classmethod
    def of(cls, engine_uuid: str) -> EngineIdentity:
        """The same of an engine that is known to be ours.

        Raises:
            ValueError: it is not.
        """
        identity = cls.parse(engine_uuid)
        if identity is None:
            raise ValueError(f"{engine_uuid} is not one of our engines")
        return identity


def new_worker_uuid(key: str) -> str:
    return f"{_WORKER}:{key}:{uuid.uuid4().hex[:8]}"


def new_worker_key(name: str) -> str:
    """A worker's own name plus what makes it unique: two machines may have one host name."""
    return f"{name}~{uuid.uuid4().hex[:6]}"


def name_of_key(key: str) -> str:
    return key.partition("~")[0]


def worker_of(engine_uuid: str) -> str | None:
    """The key of the worker whose supervisor has this ipyparallel uuid; None for any other engine."""
    parts = engine_uuid.split(":")
    return parts[1] if len(parts) == 3 and parts[0] == _WORKER else None
