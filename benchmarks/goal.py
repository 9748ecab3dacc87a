"""What a benchmark is to reach, and when it has clearly become worse."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A bound on one contender's median, or on its ratio to the peer's median.

    `kind`: "ratio" to the peer, "value" in the benchmark's unit, or "added" to the peer's value. `limit` is the goal; `alarm` is
    the wider bound that a noisy machine must still keep, so that a change that breaks it is a fault.
    """

    contender: str
    limit: float
    alarm: float
    kind: str = "ratio"  # or "value", or "added"
    at_least: bool = False  # otherwise at most
    against: str | None = None  # another peer than the benchmark's

    def measured(self, median: float, peer_median: float) -> float:
        """The number that the limits speak of."""
        if self.kind == "ratio":
            return median / peer_median
        return median - peer_median if self.kind == "added" else median

    def reached(self, number: float) -> bool:
        return number >= self.limit if self.at_least else number <= self.limit

    def alarming(self, number: float) -> bool:
        return number < self.alarm if self.at_least else number > self.alarm

    def text(self) -> str:
        sign = "≥" if self.at_least else "≤"
        return {"ratio": f"{sign} {self.limit:g}×", "added": f"{sign} {self.limit:g} more", "value": f"{sign} {self.limit:g}"}[
            self.kind
        ]
