"""What one torchrun agent is told and what is known of it: plain data of a launch.

Made in the process that drives a launch and by the agent's keeper; they meet in the agent's folder. Owns the JSON forms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

# what the keeper is told on its standard input, one byte each; the end of the input means KILL
INTERRUPT, TERMINATE, KILL = b"i", b"t", b"k"

LOOPBACK_INTERFACE = "lo"


@dataclass(frozen=True, kw_only=True)
class AgentOrder:
    """One node's part of a launch.

    `script` and `folder` are absolute paths on the node's machine; `interface` is the network interface of its address
    ("" leaves the choice to the backend).
    """

    run_id: str
    script: str
    arguments: tuple[str, ...]
    folder: str  # where the script runs
    nodes: int
    devices: int
    node_rank: int
    master_addr: str
    master_port: int
    interface: str = ""
    accelerator: str = "auto"
    env: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> AgentOrder:
        data = json.loads(text)
        return cls(**{**data, "arguments": tuple(data["arguments"])})


@dataclass(frozen=True)
class RankEnd:
    """How one rank's process ended: a negative exit code is a signal's number, None is not known. `time` as in records.

    `is_late`: the launch was being ended on its node by then, so the end may be our own doing.
    """

    exit_code: int | None
    time: float
    is_late: bool = False


@dataclass(frozen=True, kw_only=True)
class AgentStatus:
    """Where an agent is. `phase` is "starting", "running" or "over"; the maps are by local rank.

    `exit_code` is the agent's own; `log` has its last lines once it is over.
    """

    phase: str = "starting"
    pid: int | None = None
    pids: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, RankEnd] = field(default_factory=dict)
    exit_code: int | None = None
    log: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AgentStatus:
        """JSON has made the maps' keys strings."""
        pids = {int(rank): pid for rank, pid in data["pids"].items()}
        ends = {int(rank): RankEnd(**end) for rank, end in data["ends"].items()}
        return cls(**{**data, "pids": pids, "ends": ends})

    @property
    def failed_ranks(self) -> list[int]:
        """Local ranks that ended otherwise than well, earliest first."""
        failed = [rank for rank, end in self.ends.items() if end.exit_code]
        return sorted(failed, key=lambda rank: self.ends[rank].time)


@dataclass(frozen=True, kw_only=True)
class AgentNews:
    """What is new of one agent: its status, what its ranks wrote since `offsets` of the last news.

    `output` has (local rank, "stdout" or "stderr", text); `offsets` are bytes read, by "<local rank>.<stream>".
    """

    status: AgentStatus
    output: tuple[tuple[int, str, str], ...] = ()
    offsets: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"status": self.status.to_dict(), "output": [list(part) for part in self.output], "offsets": dict(self.offsets)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AgentNews:
        output = tuple((int(rank), str(stream), str(text)) for rank, stream, text in data["output"])
        return cls(status=AgentStatus.from_dict(data["status"]), output=output, offsets=dict(data["offsets"]))
