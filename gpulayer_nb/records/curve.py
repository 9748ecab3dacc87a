"""A curve of any length, kept in a bounded number of points.

Runs in the kernel and the Jupyter server. Owns thinning and the trailing mean. Must not know what is drawn with it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence

MAX_BUCKETS = 600  # an even number; each gives at most 3 points
MAX_POINTS = 3 * (MAX_BUCKETS + 1) + 2
SMOOTHING = 25  # steps in the trailing mean

_Point = tuple[int, float]
_Bucket = tuple[_Point | None, _Point | None, int | None]  # lowest and highest finite point, first step that is a gap


class Curve:
    """Lowest and highest value of equal stretches of steps; the stretches double in length when there are too many.

    First, last and extreme values are exact, and so is every value of the first `MAX_BUCKETS`. A value that is not finite is a
    gap: `points` gives it as NaN. Feeding costs the same per value however long the curve is.
    """

    def __init__(self) -> None:
        self._buckets: list[_Bucket] = []
        self._stride = 1  # values per full bucket
        self._open_steps: list[int] = []  # of the bucket that is not full yet
        self._open_values: list[float] = []
        self._first: _Point | None = None
        self._last: _Point | None = None

    @property
    def last(self) -> _Point | None:
        """The newest step and its exact value."""
        return self._last

    def extend(self, steps: Sequence[int], values: Sequence[float]) -> None:
        """Append values in the order of their steps."""
        if len(steps) == 0:
            return
        if self._first is None:
            self._first = (steps[0], values[0])
        self._last = (steps[-1], values[-1])
        at = 0
        while at < len(steps):
            room = self._stride - len(self._open_steps)
            self._open_steps.extend(steps[at : at + room])
            self._open_values.extend(values[at : at + room])
            at += room
            if len(self._open_steps) == self._stride:
                self._close()

    def points(self) -> tuple[list[int], list[float]]:
        """Steps and values to draw: at most `MAX_POINTS`, steps rising, NaN where the line is broken."""
        if self._first is None or self._last is None:
            return [], []
        buckets = self._buckets
        if self._open_steps:
            buckets = [*buckets, _bucket(self._open_steps, self._open_values)]
        found = {self._first[0]: self._first[1]}
        for low, high, gap in buckets:
            some = [p for p in (low, high) if p is not None]
            if gap is not None:
                some.append((gap, math.nan))
            found.update(sorted(some))
        found[self._last[0]] = self._last[1]
        return list(found), [v if math.isfinite(v) else math.nan for v in found.values()]

    def _close(self) -> None:
        self._buckets.append(_bucket(self._open_steps, self._open_values))
        self._open_steps, self._open_values = [], []
        if len(self._buckets) == MAX_BUCKETS:
            pairs = zip(self._buckets[::2], self._buckets[1::2], strict=True)
            self._buckets = [_merged(a, b) for a, b in pairs]
            self._stride *= 2


def _bucket(steps: Sequence[int], values: Sequence[float]) -> _Bucket:
    if math.isfinite(sum(values)):  # one pass in C; nearly every bucket
        low, high = min(values), max(values)
        return (steps[values.index(low)], low), (steps[values.index(high)], high), None
    finite = [(v, s) for s, v in zip(steps, values, strict=True) if math.isfinite(v)]
    gap = next((s for s, v in zip(steps, values, strict=True) if not math.isfinite(v)), None)
    if not finite:
        return None, None, gap
    (low, low_step), (high, high_step) = min(finite), max(finite)
    return (low_step, low), (high_step, high), gap


def _merged(a: _Bucket, b: _Bucket) -> _Bucket:
    low = a[0] if b[0] is None or (a[0] is not None and a[0][1] <= b[0][1]) else b[0]
    high = a[1] if b[1] is None or (a[1] is not None and a[1][1] >= b[1][1]) else b[1]
    return low, high, a[2] if a[2] is not None else b[2]


class TrailingMean:
    """Mean of the last `width` values, those that are not finite left out; NaN at a value that is not finite.

    It looks back only, so what has been drawn is never drawn anew. Each window is summed afresh: nothing drifts.
    """

    def __init__(self, width: int = SMOOTHING) -> None:
        self._window: deque[float] = deque(maxlen=width)

    def extend(self, values: Iterable[float]) -> list[float]:
        """The means at these values."""
        window, means = self._window, []
        for value in values:
            window.append(value)
            total = sum(window)
            if math.isfinite(total):
                means.append(total / len(window))
            elif math.isfinite(value):
                good = [v for v in window if math.isfinite(v)]
                means.append(math.fsum(good) / len(good) if len(good) < len(window) else value)
            else:
                means.append(math.nan)
        return means
