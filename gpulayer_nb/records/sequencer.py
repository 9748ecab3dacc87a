"""Puts a rank's batches back into the order in which it numbered them.

Runs wherever batches are read. Owns what was seen; asking for what is missing is the reader's.
"""

from __future__ import annotations

from typing import Any


class Sequencer:
    """Batches of one rank of one run. Late ones are put in their place, repeated ones dropped."""

    def __init__(self) -> None:
        self._next = 0
        self._waiting: dict[int, dict[str, Any]] = {}

    @property
    def missing_from(self) -> int | None:
        """The first number that is missing while later ones are here; None if nothing is known to be missing."""
        return self._next if self._waiting else None

    def take(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        """All batches that are now in order, oldest first."""
        number = batch["seq"]
        if number < self._next or number in self._waiting:
            return []
        self._waiting[number] = batch
        ready = []
        while self._next in self._waiting:
            ready.append(self._waiting.pop(self._next))
            self._next += 1
        return ready

    def give_up(self) -> list[dict[str, Any]]:
        """What is here although something before it never came."""
        ready = [self._waiting[number] for number in sorted(self._waiting)]
        if ready:
            self._next = ready[-1]["seq"] + 1
        self._waiting.clear()
        return ready
