"""Means over ranks: one packed sum for all steps since the last exchange, and one for an epoch.

Runs in a rank. Owns the agreement on names, on the step of the next exchange and on stopping. Must not know the loop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gpulayer_nb.train.group import Group
from gpulayer_nb.train.metric_log import EpochSums

HEADER = 5  # ranks with names the others do not know, user's stop, limit reached, rank 0's pace, samples


@dataclass(frozen=True)
class StepMeans:
    """What all ranks know after an exchange, the same on each."""

    values: dict[str, tuple[float | None, ...]]  # one per step; None: no rank logged it
    ranks: dict[str, tuple[int, ...]]  # how many ranks logged it, for names that some rank left out of some step
    samples: int
    stop: bool
    limit: bool
    pace: int  # steps until the next exchange
    non_finite: dict[str, dict[int, int]] = field(default_factory=dict)  # name → index of the step → first such rank


@dataclass(frozen=True)
class EpochMeans:
    values: dict[str, float]
    samples: int
    stop: bool
    limit: bool


class AgreedNames:
    """Names in an order that is the same on every rank. It only grows."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._known: set[str] = set()

    def unknown(self, names: dict[str, None]) -> list[str]:
        return [name for name in names if name not in self._known]

    def extend(self, unknown_by_rank: list[list[str]]) -> None:
        for unknown in unknown_by_rank:
            for name in unknown:
                if name not in self._known:
                    self._known.add(name)
                    self.names.append(name)


class MetricExchange:
    """All ranks call the same method at the same moment; that moment is what `pace` agrees on."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._steps = AgreedNames()
        self._epochs: dict[str, AgreedNames] = {}

    def steps(self, logged: list[dict[str, float]], samples: int, *, stop: bool, limit: bool, pace: int) -> StepMeans:
        """Mean over the ranks that logged it, for every name and step.

        One sum over the ranks in the usual case; a second one, with the names sent along, when a rank has new names.
        """
        seen = {name: None for values in logged for name in values}
        head = [0.0, float(stop), float(limit), float(pace if self._group.rank == 0 else 0), float(samples)]
        head, sums = self._sum_agreed(self._steps, seen, head, lambda names: _pack_steps(logged, names))
        means = self._unpack_steps(len(logged), sums)
        non_finite = self._find_non_finite(logged, means)
        present = {name: column for name, column in means.items() if any(count for _, count in column)}
        world_size = self._group.world_size
        return StepMeans(
            values={name: tuple(value for value, _ in column) for name, column in present.items()},
            ranks={
                name: tuple(count for _, count in column)
                for name, column in present.items()
                if any(count != world_size for _, count in column)
            },
            samples=int(head[4]),
            stop=head[1] > 0,
            limit=head[2] > 0,
            pace=max(1, int(head[3])),
            non_finite=non_finite,
        )

    def epoch(self, split: str, sums: EpochSums, *, stop: bool, limit: bool) -> EpochMeans:
        """Σ value·samples / Σ samples over all ranks; a rank that logged nothing adds nothing."""
        agreed = self._epochs.setdefault(split, AgreedNames())
        head = [0.0, float(stop), float(limit), 0.0, float(sums.samples)]
        seen = dict.fromkeys(sums.values)
        head, packed = self._sum_agreed(
            agreed, seen, head, lambda names: [x for n in names for x in (sums.values.get(n, 0.0), sums.weights.get(n, 0.0))]
        )
        totals = zip(agreed.names, packed[0::2], packed[1::2], strict=True)
        values = {name: total / weight for name, total, weight in totals if weight > 0}
        return EpochMeans(values=values, samples=int(head[4]), stop=head[1] > 0, limit=head[2] > 0)

    def _sum_agreed(self, agreed: AgreedNames, seen: dict[str, None], head: list[float], pack) -> tuple[list[float], list[float]]:  # type: ignore[no-untyped-def]
        unknown = agreed.unknown(seen)
        head = [float(bool(unknown)), *head[1:]]
        summed = self._group.sum(head + pack(agreed.names))
        if summed[0] > 0:
            agreed.extend(self._group.gather(unknown))
            summed = self._group.sum(head + pack(agreed.names))
        return summed[:HEADER], summed[HEADER:]

    def _unpack_steps(self, steps: int, sums: list[float]) -> dict[str, list[tuple[float | None, int]]]:
        names = self._steps.names
        width = 2 * len(names)
        columns: dict[str, list[tuple[float | None, int]]] = {name: [] for name in names}
        for step in range(steps):
            base = step * width
            for column, name in enumerate(names):
                total, count = sums[base + 2 * column], int(sums[base + 2 * column + 1])
                columns[name].append((total / count if count else None, count))
        return columns

    def _find_non_finite(
        self, logged: list[dict[str, float]], means: dict[str, list[tuple[float | None, int]]]
    ) -> dict[str, dict[int, int]]:
        """Every rank sees the same means, so all or none take the slow path that asks which rank it was."""
        if all(value is None or math.isfinite(value) for column in means.values() for value, _ in column):
            return {}
        mine = [
            (name, step)
            for step, values in enumerate(logged)
            for name, value in values.items()
            if not math.isfinite(value)
        ]
        found: dict[str, dict[int, int]] = {}
        for rank, places in enumerate(self._group.gather(mine)):
            for name, step in places:
                found.setdefault(name, {}).setdefault(step, rank)
        return found


def _pack_steps(logged: list[dict[str, float]], names: list[str]) -> list[float]:
    """For each step and name the value (0 if not logged) and 1 or 0 for whether it was."""
    packed: list[float] = []
    for values in logged:
        for name in names:
            if name in values:
                packed += (values[name], 1.0)
            else:
                packed += (0.0, 0.0)
    return packed
