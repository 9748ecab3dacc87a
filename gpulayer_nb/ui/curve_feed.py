"""What a drawing in the browser has not been told yet.

Runs in the kernel. Owns the packing of curves into few bytes. Must not know widgets.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import EpochMetrics
from gpulayer_nb.ui.panel import MAX_PANELS, chosen_first, family

WHOLE_GROUPS = 600  # of a whole curve: more than a panel has pixels
TAIL = 2_000  # of a whole curve's newest values sent one by one as well, for zooming in
DELTA_BYTES = 4_000  # of all curves in one update
MOST_EPOCHS = 12  # records of epoch means in one update
WHOLE_EPOCHS = 300  # of a whole curve
_VALUE_BYTES, _GROUP_BYTES = 8, 24
_ENTRY_BYTES = 100  # of what names a buffer, or of an epoch's mean

News = tuple[list[dict[str, Any]], list[bytes]]  # entries, each naming its buffer by position, and the buffers


def one_by_one(steps: Sequence[int], values: Sequence[float]) -> bytes:
    """Pairs of float32: step, value. Steps are exact up to 2**24."""
    pairs = np.empty((len(steps), 2), "<f4")
    pairs[:, 0], pairs[:, 1] = steps, values
    return pairs.tobytes()


def grouped(steps: Sequence[int], values: Sequence[float], most: int) -> bytes:
    """At most `most` groups of equal length, six float32 each.

    They are: the last step; of the finite values the lowest, the highest, their sum and their number; the number of the others.
    """
    size = math.ceil(len(steps) / most)
    whole = len(steps) // size * size
    at, all_values = np.asarray(steps), np.asarray(values, "f8")
    parts = [_groups(at[:whole].reshape(-1, size), all_values[:whole].reshape(-1, size))]
    if whole < len(steps):
        parts.append(_groups(at[whole:].reshape(1, -1), all_values[whole:].reshape(1, -1)))
    return np.concatenate(parts).astype("<f4").tobytes()


def _groups(steps: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(groups, 6) of (groups, values per group)."""
    good = np.isfinite(values)
    counts = good.sum(axis=1)
    low, high = np.where(good, values, np.inf).min(axis=1), np.where(good, values, -np.inf).max(axis=1)
    none = counts == 0
    low[none] = high[none] = np.nan
    sums = np.where(good, values, 0.0).sum(axis=1)
    return np.stack([steps[:, -1], low, high, sums, counts, values.shape[1] - counts], axis=1)


def _thinned(rows: tuple[EpochMetrics, ...]) -> tuple[EpochMetrics, ...]:
    """At most about `WHOLE_EPOCHS` epochs, the last one among them."""
    size = math.ceil(len({row.epoch for row in rows}) / WHOLE_EPOCHS) or 1
    last = max((row.epoch for row in rows), default=0)
    return tuple(row for row in rows if row.epoch % size == 0 or row.epoch == last)


class CurveFeed:
    """Reads a history once. `news` gives what came since the last call of either, `whole` everything, thinned."""

    def __init__(self, history: RunHistory) -> None:
        self._history = history
        self._read: dict[str, int] = {}  # metric: values told
        self._names: dict[str, str] = {}  # family: its metric with step values
        self._epochs = 0  # records told

    def news(self, most_bytes: int = 2 * DELTA_BYTES) -> News:
        """New step values and epoch means; a long backlog is thinned.

        Args:
            most_bytes: room for all of it.
        """
        entries: list[dict[str, Any]] = []
        buffers: list[bytes] = []
        means = self._epoch_means(MOST_EPOCHS)
        room = most_bytes - _ENTRY_BYTES * (len(means) + len(self._metrics()))
        share = max(_GROUP_BYTES, min(DELTA_BYTES, room) // max(1, len(self._metrics())))
        for base, name in self._metrics().items():
            steps, values = self._take(name)
            if not steps:
                continue
            raw = len(steps) * _VALUE_BYTES <= share
            entries.append({"family": base, "kind": "values" if raw else "groups", "buffer": len(buffers)})
            buffers.append(one_by_one(steps, values) if raw else grouped(steps, values, max(1, share // _GROUP_BYTES)))
        return entries + means, buffers

    def whole(self) -> News:
        """Every curve from its first step on."""
        self._read.clear()
        self._epochs = 0
        entries: list[dict[str, Any]] = []
        buffers: list[bytes] = []
        for base, name in self._metrics().items():
            steps, values = self._take(name)
            entry = {"family": base, "kind": "whole", "buffer": len(buffers), "total": len(steps)}
            few = len(steps) <= WHOLE_GROUPS
            buffers.append(b"" if few or not steps else grouped(steps, values, WHOLE_GROUPS))
            entries.append(entry | {"tail": len(buffers)})
            buffers.append(one_by_one(steps[-TAIL:], values[-TAIL:]))
        return entries + self._epoch_means(), buffers

    def _metrics(self) -> dict[str, str]:
        """Family and metric, those beside the progress bar first, as many as are drawn."""
        for name in self._history.metric_names:
            self._names.setdefault(family(name), name)
        return {base: self._names[base] for base in chosen_first(self._names, self._history.chosen)[:MAX_PANELS]}

    def _take(self, name: str) -> tuple[array[int], array[float]]:
        start = self._read.get(name, 0)
        steps, values = self._history.column(name, start)
        self._read[name] = start + len(steps)
        return steps, values

    def _epoch_means(self, most: int | None = None) -> list[dict[str, Any]]:
        """The next records of epoch means; without `most` all of them, thinned."""
        rows = self._history.epochs(self._epochs)[:most]
        self._epochs += len(rows)
        if most is None:
            rows = _thinned(rows)
        return [
            {"family": family(name), "kind": row.split, "step": row.global_step, "epoch": row.epoch + 1,
             "value": value if math.isfinite(value) else None}
            for row in rows if row.split in ("train", "val") for name, value in row.values.items()
        ]  # fmt: skip
