"""Where logged values were NaN or infinite.

Runs wherever records are read. Owns the joining of neighbouring steps. Must not know how it is told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpulayer_nb.records.record import NonFinite

MAX_MARKS = 1_000  # the first ones tell what happened


@dataclass(frozen=True, slots=True)
class NonFiniteMark:
    """A stretch of steps whose mean of `name` is NaN or infinite; `rank` is the first rank that had it."""

    name: str
    first_step: int
    last_step: int
    rank: int

    @property
    def steps(self) -> int:
        return self.last_step - self.first_step + 1


class NonFiniteMarks:
    """Stretches in order of appearance. Not thread-safe."""

    def __init__(self) -> None:
        self._marks: list[NonFiniteMark] = []
        self._newest: dict[str, int] = {}  # metric: index of its newest mark

    def add(self, record: NonFinite) -> None:
        for step, rank in zip(record.steps, record.ranks, strict=False):
            at = self._newest.get(record.name)
            if at is not None and self._marks[at].last_step == step - 1:
                self._marks[at] = replace(self._marks[at], last_step=step)
            elif len(self._marks) < MAX_MARKS:
                self._newest[record.name] = len(self._marks)
                self._marks.append(NonFiniteMark(record.name, step, step, rank))

    @property
    def marks(self) -> tuple[NonFiniteMark, ...]:
        return tuple(self._marks)
