"""Where a rank is: its collective, its step, its stack. Answered by an engine, read in the kernel."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One frame of the main thread; `cell` is the notebook's number of the cell that the code was written in, if it was."""

    function: str
    line: int
    file: str
    cell: int | None = None


@dataclass(frozen=True, kw_only=True)
class Whereabouts:
    """`stack` is innermost last. `collective` is the one the rank is in; `entered` counts those of this run."""

    rank: int
    busy: bool
    collective: str | None = None
    entered: int = 0
    global_step: int = 0
    stack: tuple[Frame, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Whereabouts:
        return cls(**{**data, "stack": tuple(Frame(**frame) for frame in data["stack"])})

    @property
    def user_frame(self) -> Frame | None:
        """The innermost frame of the notebook's own code."""
        return next((frame for frame in reversed(self.stack) if frame.cell is not None), None)
