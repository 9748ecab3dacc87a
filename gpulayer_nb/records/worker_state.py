"""What a worker's supervisor tells about itself: its engines, their ends, what the machine offers.

Written by the supervisor to `state.json` in the cluster's folder and sent over the control channel; read in the kernel.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
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
class WorkerState:
    """`phase` is "loading" (torch is being imported), "up" or "down"; `facts` is empty while loading."""

    worker: str
    pid: int
    phase: str
    address: str = "127.0.0.1"
    facts: dict[str, Any] = field(default_factory=dict)
    engines: tuple[EngineState, ...] = ()
    deaths: tuple[EngineDeath, ...] = ()
    children: tuple[tuple[int, int | None], ...] = ()  # pid and start ticks of zygote and controller
    message: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WorkerState:
        data = json.loads(text)
        data["engines"] = tuple(EngineState(**engine) for engine in data["engines"])
        data["deaths"] = tuple(EngineDeath(**death) for death in data["deaths"])
        data["children"] = tuple((pid, ticks) for pid, ticks in data["children"])
        return cls(**data)

    def write(self, path: Path) -> None:
        temporary = path.with_suffix(".new")
        temporary.write_text(self.to_json())
        temporary.replace(path)

    @classmethod
    def read(cls, path: Path) -> WorkerState | None:
        """None while there is no such file."""
        try:
            return cls.from_json(path.read_text())
        except FileNotFoundError:
            return None
