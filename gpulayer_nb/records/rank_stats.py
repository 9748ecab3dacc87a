"""What a rank's process uses, as it answers when asked. Made on engines, read in the Jupyter server."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class RankStats:
    """`clock` is the engine's monotonic clock in seconds, so that two answers give a share of a processor.

    `memory_bytes` is the process's own share (PSS), `machine_bytes` the machine's memory. The GPU's figures are None without one,
    `gpu_memory_bytes` is what torch holds there. `collective` is the one the rank is in, `entered` counts those of its run.
    """

    pid: int
    clock: float = 0.0
    run_id: str | None = None
    cpu_seconds: float = 0.0
    memory_bytes: int | None = None
    machine_bytes: int | None = None
    gpu_name: str | None = None
    gpu_memory_bytes: int | None = None
    gpu_total_bytes: int | None = None
    gpu_percent: float | None = None
    collective: str | None = None
    entered: int = 0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RankStats:
        """Of a reply; what this release does not know is left out."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known})
