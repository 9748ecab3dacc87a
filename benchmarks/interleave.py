"""Measures contenders in turn, round by round, so that what disturbs the machine disturbs all of them alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from goal import Goal

Measure = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """`contenders()` prepares and yields what to measure by name; `peer` names the one that ratios are taken against, if any.

    `rounds` caps the rounds of a benchmark that is slow or hardly varies.
    """

    name: str
    unit: str
    peer: str | None
    contenders: Callable[[], AbstractContextManager[dict[str, Measure]]]
    goals: tuple[Goal, ...] = ()
    rounds: int | None = None


@dataclass(frozen=True)
class Series:
    """All measurements of one contender, in the order of the rounds."""

    contender: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """Lowest and highest."""
        return min(self.values), max(self.values)


def interleave(contenders: dict[str, Measure], rounds: int) -> list[Series]:
    """Each contender once per round; every other round goes backwards."""
    values: dict[str, list[float]] = {name: [] for name in contenders}
    for name in _order(list(contenders), rounds):
        values[name].append(contenders[name]())
    return [Series(name, tuple(found)) for name, found in values.items()]


def _order(names: list[str], rounds: int) -> Iterator[str]:
    for round_index in range(rounds):
        yield from names if round_index % 2 == 0 else reversed(names)
