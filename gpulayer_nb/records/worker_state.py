"""What a worker's supervisor tells about itself: its engines, their ends, what the machine offers.

Written by the supervisor to `state.json` in the cluster's folder and sent over the control channel; read in the kernel.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class EngineState:
    slot: int
    pid: int
    ticks: int | None  # start time: with the pid it names the process for ever
    uuid: str | None = None  # set once registered


@dataclass(frozen=True, kw_only=True)
class EngineDeath:
    slot: int
    pid: int
    signal: int | None
    exit_code: int | None
    expected: bool  # we were told to end it


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Engines that one client has for itself."""

    token: str
    by: str  # who, in words: `ada@head, process 4711`
    slots: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class WorkerState:
    """`phase` is "loading" (torch is being imported), "up" or "down"; `facts` is empty while loading.

    `worker` is the worker's key. `devices` is how many engines it offers, 0 for "as many as are asked for" (the embedded one).
    `probe_port` and `probe_token`: where it answers other workers that try whether they reach it.
    """

    worker: str
    pid: int
    phase: str
    address: str = "127.0.0.1"
    interface: str = "lo"
    host: str = ""
    devices: int = 0
    accelerator: str = "auto"
    probe_port: int = 0
    probe_token: str = ""
    claims: tuple[Claim, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    engines: tuple[EngineState, ...] = ()
    deaths: tuple[EngineDeath, ...] = ()
    children: tuple[tuple[int, int | None], ...] = ()  # pid and start ticks of zygote and controller
    message: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WorkerState:
        return cls.from_dict(json.loads(text))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> WorkerState:
        """Reads what another release has written too: what it did not know has its default, what it alone knew is left out."""
        known = {known.name for known in fields(cls)}
        data = {name: value for name, value in data.items() if name in known}
        data["claims"] = tuple(Claim(**{**claim, "slots": tuple(claim["slots"])}) for claim in data.get("claims", ()))
        data["engines"] = tuple(EngineState(**engine) for engine in data.get("engines", ()))
        data["deaths"] = tuple(EngineDeath(**death) for death in data.get("deaths", ()))
        data["children"] = tuple((pid, ticks) for pid, ticks in data.get("children", ()))
        return cls(**data)

    def write(self, path: Path) -> None:
        temporary = path.with_suffix(".new")
        temporary.write_text(self.to_json())
        temporary.replace(path)

    @classmethod
    def read(cls, path: Path) -> WorkerState | None:
        """None while there is no such file, or if it is not such a file at all."""
        try:
            return cls.from_json(path.read_text())
        except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
            return None
