"""Round numbers for axes.

Runs in the kernel. Owns ticks and axis ends. Must not know what is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

from gpulayer_nb.ui import number


def step_between(low: float, high: float, count: float) -> float:
    """The least of 1, 2, 5 × 10^k that cuts the range into at most `count` parts."""
    raw = (high - low) / max(1.0, count)
    size = 10.0 ** math.floor(math.log10(raw))
    return next(m * size for m in (1, 2, 5, 10) if m * size >= raw * (1 - 1e-9))


def ticks(low: float, high: float, count: float) -> list[float]:
    """Round numbers from `low` to `high`, at most `count` + 1 of them."""
    step = step_between(low, high, count)
    first, last = math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6)
    return [i * step for i in range(first, last + 1)]


def ends(low: float, high: float) -> tuple[float, float]:
    """Round ends of a y axis that shows `low` to `high`.

    A share (all within 0 to 1, and some above one half) ends at 1; an axis begins at 0 unless the values keep well away from it.
    """
    if low >= 0 and 0.5 < high <= 1:
        return math.floor(low * 5 + 1e-9) / 5 if low < 1 else 0.8, 1.0
    if low == high:
        low, high = (min(0.0, 2 * low), max(0.0, 2 * high)) if low else (0.0, 1.0)
    if 0 < low < 0.7 * high:
        low = 0.0
    elif 0 > high > 0.7 * low:
        high = 0.0
    step = step_between(low, high, 4)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def labels(levels: list[float]) -> list[str]:
    """One label per tick, all with the same number of decimals; 0 is `0`."""
    sizes = [abs(level) for level in levels if level]
    if not sizes:
        return ["0" for _ in levels]
    step = min(abs(b - a) for a, b in pairwise(levels)) if len(levels) > 1 else sizes[0]
    if max(sizes) >= 1e5 or step < 1e-4:
        return ["0" if level == 0 else f"{level:.3g}".replace("e-0", "e-").replace("e+0", "e") for level in levels]
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return ["0" if level == 0 else f"{level:,.{decimals}f}".replace(",", number.THIN) for level in levels]


def every(spacing: float, least: float) -> int:
    """Show only each k-th mark, so that shown ones are `least` apart."""
    return next((k for k in (1, 2, 5, 10, 20, 50, 100, 200, 500) if k * spacing >= least), max(1, math.ceil(least / spacing)))


def finite_range(groups: Iterable[Iterable[float]]) -> tuple[float, float] | None:
    """Lowest and highest finite value of all groups."""
    seen = [v for group in groups for v in group if math.isfinite(v)]
    return (min(seen), max(seen)) if seen else None
