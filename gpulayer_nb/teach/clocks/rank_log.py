"""When a rank computed, talked and waited.

Runs on a rank, inside a cell. Owns the spans it saw. Must not know what the spans are used for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """Seconds of the machine's monotonic clock, which all its processes share. A wait has no end."""

    kind: str  # compute, collective or wait
    step: int
    start: float
    end: float | None


class Spans(list[Span]):
    """The spans of one rank; in a cell's output one short line."""

    def __repr__(self) -> str:
        return ", ".join(f"{span.kind} {span.step}" for span in self) or "nothing"


class RankLog:
    """`with log.computing(step): …` and `with log.talking(step): …` note when and how they ended.

    A collective that is cut off, because the cell ran out of time, is noted as a wait.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.spans = Spans()
        self._clock = clock

    @contextmanager
    def computing(self, step: int) -> Iterator[None]:
        start = self._clock()
        yield
        self.spans.append(Span("compute", step, start, self._clock()))

    @contextmanager
    def talking(self, step: int) -> Iterator[None]:
        start = self._clock()
        try:
            yield
        except BaseException:
            self.spans.append(Span("wait", step, start, None))
            raise
        self.spans.append(Span("collective", step, start, self._clock()))
