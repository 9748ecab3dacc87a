"""What one rank has logged since the last exchange, and its sums for the epoch.

Runs in a rank, inside the hottest loop: keeping a value must cost almost nothing and must never wait for a device.
Must not know other ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import mul
from typing import Any

import torch
from torch import Tensor

from gpulayer_nb.errors import UsageError

FOLD_AT = 1024  # values kept as they came, before they are folded into sums outside training steps

Entry = tuple[str, Any, float]  # name, a float or a one-number tensor of its own on a device, weight in samples


@dataclass
class EpochSums:
    """Per name Σ value·weight and Σ weight, in float64; and the samples of the pass."""

    values: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    samples: int = 0

    def add_all(self, name: str, total: float, weight: float) -> None:
        """Add Σ value·weight and Σ weight of some values."""
        self.values[name] = self.values.get(name, 0.0) + total
        self.weights[name] = self.weights.get(name, 0.0) + weight


@dataclass(frozen=True)
class StepValues:
    """One rank's values of consecutive optimizer steps: `columns[name][i]` is that of the i-th, None if it logged none."""

    count: int
    columns: dict[str, list[float | None]]
    samples: int


class MetricLog:
    """Takes what `log` is given. The loop sets `weight` for each batch and closes each optimizer step."""

    def __init__(self) -> None:
        self.weight = 1  # samples of the batch in hand: the weight of a value that brings none
        self.in_steps = False  # values belong to the training step that is on
        self.sums = EpochSums()
        self.prog_bar: dict[str, None] = {}
        self.objects: dict[str, Any] = {}  # metric objects logged in this pass
        self._off_step: set[str] = set()
        self._off_epoch: set[str] = set()
        self._entries: list[Entry] = []
        self._step_ends: list[int] = []  # number of entries at the end of each closed step
        self._step_samples = 0

    def add(
        self,
        name: str,
        value: Any,
        batch_size: int | None = None,
        on_step: bool | None = None,
        on_epoch: bool | None = None,
        prog_bar: bool = False,
    ) -> None:
        """Keep one value. A device tensor is copied on its device and read at the next exchange."""
        if isinstance(value, Tensor):
            value = self._number_of(name, value)
        else:
            try:
                value = float(value)
            except (TypeError, ValueError):
                if (value := self._value_of_object(name, value)) is None:
                    return
        self._entries.append((name, value, self.weight if batch_size is None else batch_size))
        if on_step is False:
            self._off_step.add(name)
        if on_epoch is False:
            self._off_epoch.add(name)
        if prog_bar:
            self.prog_bar[name] = None
        if not self.in_steps and len(self._entries) >= FOLD_AT:
            self.fold()

    def _value_of_object(self, name: str, metric: Any) -> Any:
        """Keep an object that computes its own epoch value; returns its value of the training step that is on, if it has one."""
        if not all(callable(getattr(metric, method, None)) for method in ("update", "compute", "reset")):
            raise UsageError(
                f"log({name!r}, …) got a {type(metric).__name__}; it records one number, for example a loss."
            ) from None
        self.objects[name] = metric
        self._off_epoch.add(name)
        latest = getattr(metric, "_forward_cache", None)  # torchmetrics: of the last call, if it was called and not only updated
        return self._number_of(name, latest) if self.in_steps and isinstance(latest, Tensor) and latest.numel() == 1 else None

    def _number_of(self, name: str, value: Tensor) -> Any:
        if value.numel() != 1:
            raise UsageError(
                f"log({name!r}, …) got a tensor of shape {tuple(value.shape)}; it records one number, for example its .mean()."
            )
        if value.is_cpu:
            return float(value.item())
        exact = torch.float32 if value.device.type == "mps" else torch.float64
        return value.detach().reshape(()).to(exact, copy=True)  # a copy: the caller may go on changing its tensor in place

    def end_step(self, samples: int) -> None:
        """Close an optimizer step of `samples` samples on this rank."""
        self._step_ends.append(len(self._entries))
        self._step_samples += samples

    @property
    def open_steps(self) -> int:
        """Closed optimizer steps since the last `take_steps`."""
        return len(self._step_ends)

    def take_steps(self) -> StepValues:
        """What this rank logged in each closed step. The values also go into the epoch's sums; nothing of the steps is kept."""
        entries, ends = self._entries, self._step_ends
        if not ends:
            return StepValues(0, {}, 0)
        self._entries, self._step_ends = entries[ends[-1] :], []
        samples, self._step_samples = self._step_samples, 0
        entries = _on_host(entries[: ends[-1]])
        columns = self._alike(entries, ends)
        if columns is None:
            columns = self._one_by_one(entries, ends)
        for name in self._off_step:
            columns.pop(name, None)
        return StepValues(len(ends), columns, samples)

    def _alike(self, entries: list[Entry], ends: list[int]) -> dict[str, list[float | None]] | None:
        """The usual case in a fraction of the time: every step logged the same names, each once. None if it is not so."""
        steps = len(ends)
        width = ends[0]
        names = [name for name, _, _ in entries]
        first = names[:width]
        if ends != list(range(width, width * steps + 1, width or 1)) or names != first * steps or len(set(first)) != width:
            return None if entries else {}
        columns: dict[str, list[float | None]] = {}
        for place, name in enumerate(first):
            values: list[Any] = [value for _, value, _ in entries[place::width]]
            columns[name] = values
            if name not in self._off_epoch:
                weights = [weight for _, _, weight in entries[place::width]]
                self.sums.add_all(name, sum(map(mul, values, weights)), sum(weights))
        return columns

    def _one_by_one(self, entries: list[Entry], ends: list[int]) -> dict[str, list[float | None]]:
        columns: dict[str, list[float | None]] = {}
        start = 0
        for step, end in enumerate(ends):
            totals: dict[str, tuple[float, float]] = {}
            for name, value, weight in entries[start:end]:
                if name in totals:  # logged again in the same step, as with accumulated batches: the mean over samples
                    mean, before = totals[name]
                    share = weight / (before + weight) if before + weight else 0.5
                    totals[name] = (mean * (1 - share) + value * share, before + weight)
                else:
                    totals[name] = (value, weight)
                self._add_to_epoch(name, value, weight)
            for name, (mean, _) in totals.items():
                columns.setdefault(name, [None] * len(ends))[step] = mean
            start = end
        return columns

    def sums_so_far(self) -> EpochSums:
        """The epoch's sums with all that was logged up to now; the log stays as it is."""
        sums = EpochSums(dict(self.sums.values), dict(self.sums.weights), self.sums.samples)
        for name, value, weight in _on_host(self._entries):
            if name not in self._off_epoch:
                sums.add_all(name, value * weight, weight)
        return sums

    def fold(self) -> None:
        """Add the values of no step (validation, epoch ends) to the sums."""
        entries, self._entries = _on_host(self._entries), []
        for name, value, weight in entries:
            self._add_to_epoch(name, value, weight)

    def take_sums(self) -> EpochSums:
        """The pass's sums so far; the next pass starts from nothing."""
        self.fold()
        sums, self.sums = self.sums, EpochSums()
        return sums

    def _add_to_epoch(self, name: str, value: float, weight: float) -> None:
        if name not in self._off_epoch:
            self.sums.add_all(name, value * weight, weight)


def _on_host(entries: list[Entry]) -> list[Entry]:
    """The entries with every device tensor read, waiting for the device once."""
    waiting = [(index, value) for index, (_, value, _) in enumerate(entries) if value.__class__ is not float]
    if not waiting:
        return entries
    read = torch.stack([value for _, value in waiting]).tolist()
    entries = list(entries)
    for (index, _), number in zip(waiting, read, strict=True):
        name, _, weight = entries[index]
        entries[index] = (name, number, weight)
    return entries
