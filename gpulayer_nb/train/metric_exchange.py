"""Means over ranks: one packed sum for all steps since the last exchange, and one for an epoch.

Runs in a rank. Owns the agreement on names, on the step of the next exchange and on stopping. Must not know the loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpulayer_nb.train.group import Group
from gpulayer_nb.train.metric_log import EpochSums, StepValues

Pack = Callable[[list[str]], list[float]]  # the numbers of some names, in their order
HeadAndSums = Callable[[], tuple[list[float], list[float]]]

HEADER = 5  # ranks with names the others do not know, stop, limit reached, rank 0's pace, samples


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

    def unknown(self, names: list[str]) -> list[str]:
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

    def begin_steps(self, logged: StepValues, *, stop: bool, limit: bool, pace: int) -> Callable[[], StepMeans]:
        """Start to exchange what was logged; calling what comes back waits for the means over the ranks, for every name and step.

        One sum over the ranks in the usual case; a second one, with the names sent along, when a rank has new names. At most one
        is under way at a time.
        """
        steps, columns = logged.count, logged.columns
        head = [0.0, float(stop), float(limit), float(pace if self._group.rank == 0 else 0), float(logged.samples)]
        finish = self._begin_sum(self._steps, list(columns), head, lambda names: _pack(names, columns, steps))
        return lambda: self._means(logged, *finish())

    def _means(self, logged: StepValues, head: list[float], sums: list[float]) -> StepMeans:
        steps = logged.count
        values: dict[str, tuple[float | None, ...]] = {}
        ranks: dict[str, tuple[int, ...]] = {}
        everybody = [float(self._group.world_size)] * steps
        for index, name in enumerate(self._steps.names):
            start = 2 * steps * index
            totals, counts = sums[start : start + steps], sums[start + steps : start + 2 * steps]
            if counts == everybody:
                values[name] = tuple(total / everybody[0] for total in totals)
            elif any(counts):
                values[name] = tuple(total / n if n else None for total, n in zip(totals, counts, strict=True))
                ranks[name] = tuple(int(n) for n in counts)
        return StepMeans(
            values=values,
            ranks=ranks,
            samples=int(head[4]),
            stop=head[1] > 0,
            limit=head[2] > 0,
            pace=max(1, int(head[3])),
            non_finite=self._find_non_finite(logged.columns, values),
        )

    def epoch(self, split: str, sums: EpochSums, *, stop: bool, limit: bool) -> EpochMeans:
        """Σ value·samples / Σ samples over all ranks; a rank that logged nothing adds nothing."""
        agreed = self._epochs.setdefault(split, AgreedNames())
        head = [0.0, float(stop), float(limit), 0.0, float(sums.samples)]
        seen = list(sums.values)
        head, packed = self._begin_sum(
            agreed, seen, head, lambda names: [x for n in names for x in (sums.values.get(n, 0.0), sums.weights.get(n, 0.0))]
        )()
        totals = zip(agreed.names, packed[0::2], packed[1::2], strict=True)
        values = {name: total / weight for name, total, weight in totals if weight > 0}
        return EpochMeans(values=values, samples=int(head[4]), stop=head[1] > 0, limit=head[2] > 0)

    def _begin_sum(self, agreed: AgreedNames, seen: list[str], head: list[float], pack: Pack) -> HeadAndSums:
        unknown = agreed.unknown(seen)
        head = [float(bool(unknown)), *head[1:]]
        summed_up = self._group.begin_sum(head + pack(agreed.names))

        def finish() -> tuple[list[float], list[float]]:
            summed = summed_up()
            if summed[0] > 0:
                agreed.extend(self._group.gather(unknown))
                summed = self._group.sum(head + pack(agreed.names))
            return summed[:HEADER], summed[HEADER:]

        return finish

    def _find_non_finite(
        self, columns: Mapping[str, Sequence[float | None]], means: Mapping[str, Sequence[float | None]]
    ) -> dict[str, dict[int, int]]:
        """Every rank sees the same means, so all or none take the slow path that asks which rank it was."""
        if not any(_bad_steps(column) for column in means.values()):
            return {}
        mine = {name: bad for name, column in columns.items() if (bad := _bad_steps(column))}
        found: dict[str, dict[int, int]] = {}
        for rank, theirs in enumerate(self._group.gather(mine)):
            for name, steps in theirs.items():
                for step in steps:
                    found.setdefault(name, {}).setdefault(step, rank)
        return found


def _bad_steps(column: Sequence[float | None]) -> list[int]:
    """Places of NaN and infinity."""
    try:
        if all(map(math.isfinite, column)):  # type: ignore[arg-type]  # None is met below
            return []
    except TypeError:  # a step without a value
        pass
    return [step for step, value in enumerate(column) if value is not None and not math.isfinite(value)]


def _pack(names: list[str], columns: Mapping[str, Sequence[float | None]], steps: int) -> list[float]:
    """For each name the values of all steps (0 where there is none), then 1 or 0 for whether there is one."""
    packed: list[float] = []
    for name in names:
        column = columns.get(name)
        if column is None:
            packed += [0.0] * (2 * steps)
        elif None in column:
            packed += [0.0 if value is None else value for value in column]
            packed += [float(value is not None) for value in column]
        else:
            packed += column  # type: ignore[arg-type]  # all are floats here
            packed += [1.0] * steps
    return packed
