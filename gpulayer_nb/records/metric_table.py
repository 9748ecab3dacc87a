"""Every value a run logged: one column per metric, one row per epoch and split.

Runs wherever records are read. Owns storage (16 bytes per step value) and the merging of splits. Must not know views.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

from gpulayer_nb.records.record import EpochMetrics, StepMetrics

STEP = "step"  # the split of a row that is one training step
MAX_TIMES = 10_000  # moments kept: between two of them time passes evenly enough


@dataclass(slots=True)
class MetricColumn:
    """The values of one metric, step by step. `fewest_ranks`: some of its means are over this many ranks only."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    fewest_ranks: int | None = None


class MetricTable:
    """Columns of step values and rows of epoch means, in the order rank 0 gave them. Not thread-safe."""

    def __init__(self) -> None:
        self.columns: dict[str, MetricColumn] = {}
        self.epochs: list[EpochMetrics] = []
        self.epoch_ends: dict[int, int] = {}  # 0-based epoch: its last global_step
        self.last_step = 0
        self.times: list[tuple[int, float]] = []  # last step of a batch of steps, seconds since the epoch; thinned, see add_steps
        self._time_stride = 1
        self._batches = 0
        self._train_names: set[str] = set()  # of epoch means
        self._starts: list[tuple[int, int]] = []  # first global_step of each stretch of one epoch, and that epoch

    def add_steps(self, record: StepMetrics) -> None:
        for step, epoch in zip(record.steps, record.epochs, strict=True):
            if not self._starts or self._starts[-1][1] != epoch:
                if self._starts:
                    self.epoch_ends.setdefault(self._starts[-1][1], step - 1)
                self._starts.append((step, epoch))
        for name, values in record.values.items():
            column = self.columns.get(name)
            if column is None:
                column = self.columns[name] = MetricColumn()
            if None in values:
                given = [(s, v) for s, v in zip(record.steps, values, strict=True) if v is not None]
                column.steps.extend(s for s, _ in given)
                column.values.extend(v for _, v in given)
            else:
                column.steps.extend(record.steps)
                column.values.extend(values)  # type: ignore[arg-type]  # no None among them, see above
            counts = [c for c in record.ranks.get(name, ()) if c]
            if counts:
                column.fewest_ranks = min(counts + ([column.fewest_ranks] if column.fewest_ranks else []))
        if record.steps:
            self.last_step = max(self.last_step, record.steps[-1])
            if record.time and self._batches % self._time_stride == 0:
                self.times.append((record.steps[-1], record.time))
                if len(self.times) >= MAX_TIMES:
                    self.times, self._time_stride = self.times[::2], 2 * self._time_stride
            self._batches += 1

    def add_epoch(self, record: EpochMetrics) -> None:
        self.epochs.append(record)
        if record.split == "train":
            self._train_names.update(record.values)
            self.epoch_ends[record.epoch] = record.global_step
        elif record.split == "val" and self.columns:
            self.epoch_ends.setdefault(record.epoch, record.global_step)
        self.last_step = max(self.last_step, record.global_step)

    def name_of(self, split: str, name: str) -> str:
        """The name of an epoch mean among those of all splits: a name the training also uses gets its split in front."""
        taken = name in self.columns or name in self._train_names
        return f"{split}_{name}" if split != "train" and taken else name

    def final(self) -> dict[str, float]:
        """The last epoch mean of every metric, training first, then validation, then the rest."""
        merged: dict[str, float] = {}
        for split in ("train", "val", "test", "predict"):
            for row in self.epochs:
                if row.split == split:
                    merged.update({self.name_of(split, name): value for name, value in row.values.items()})
        return merged

    def rows(self) -> list[dict[str, Any]]:
        """One dict per step (`split` is "step") and per epoch mean, in the order of their steps."""
        steps: dict[int, dict[str, Any]] = {}
        for name, column in self.columns.items():
            for step, value in zip(column.steps, column.values, strict=True):
                row = steps.get(step)
                if row is None:
                    row = steps[step] = {"split": STEP, "epoch": 0, "global_step": step}
                row[name] = value
        rows = [steps[step] for step in sorted(steps)]
        stretch = 0
        for row in rows:
            while stretch + 1 < len(self._starts) and self._starts[stretch + 1][0] <= row["global_step"]:
                stretch += 1
            row["epoch"] = self._starts[stretch][1]
        for e in self.epochs:
            own = {"split": e.split, "epoch": e.epoch, "global_step": e.global_step}
            rows.append({**own, **e.values, "samples": e.samples, "seconds": e.seconds, **own})  # a metric "epoch" must not win
        rows.sort(key=lambda row: row["global_step"])  # stable: a step comes before the means taken after it
        return rows
