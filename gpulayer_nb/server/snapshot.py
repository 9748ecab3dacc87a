"""The panel's picture of everything, and what of it is new.

Runs in the Jupyter server. Pure. Owns the form of the messages: `labextension/src/protocol.ts` is its other half. From
`DELTAS_FROM` ranks on only changes are sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PROTOCOL = 1  # raise it when a field changes its meaning
DELTAS_FROM = 32  # ranks

Row = dict[str, Any]


@dataclass(frozen=True)
class Snapshot:
    """`clusters` name their ranks by key; `runs` are newest first."""

    clusters: list[Row] = field(default_factory=list)
    ranks: dict[str, Row] = field(default_factory=dict)
    runs: list[Row] = field(default_factory=list)

    def whole(self) -> Row:
        return {"type": "whole", "protocol": PROTOCOL, "clusters": self.clusters, "ranks": self.ranks, "runs": self.runs}


class Changes:
    """Makes one subscriber's messages; it remembers what that one has."""

    def __init__(self) -> None:
        self._sent: Snapshot | None = None

    def message(self, now: Snapshot) -> Row | None:
        """What to send so that the subscriber has `now`; None if it has it."""
        before, self._sent = self._sent, now
        if before is None:
            return now.whole()
        if before == now:
            return None
        if len(now.ranks) < DELTAS_FROM:
            return now.whole()
        return difference(before, now)


def difference(before: Snapshot, now: Snapshot) -> Row:
    """A message that turns `before` into `now`; a rank's `rates` are not sent again: each new `rate` goes to their end."""
    message: Row = {"type": "changes", "protocol": PROTOCOL}
    if before.clusters != now.clusters:
        message["clusters"] = now.clusters
    ranks = {key: changed(before.ranks.get(key), row) for key, row in now.ranks.items() if before.ranks.get(key) != row}
    if ranks := {key: fields for key, fields in ranks.items() if fields}:
        message["ranks"] = ranks
    if gone := [key for key in before.ranks if key not in now.ranks]:
        message["gone"] = gone
    known = {row["id"]: row for row in before.runs}
    if runs := {row["id"]: _fields(known[row["id"]], row) for row in now.runs if row["id"] in known and known[row["id"]] != row}:
        message["run_changes"] = runs
    if [row["id"] for row in before.runs] != [row["id"] for row in now.runs]:
        message["runs"] = now.runs
    return message


def changed(before: Row | None, now: Row) -> Row:
    """The fields that are new, all of them for a row that was not there."""
    if before is None:
        return now
    return {name: value for name, value in _fields(before, now).items() if name != "rates"}


def _fields(before: Row, now: Row) -> Row:
    return {name: value for name, value in now.items() if name not in before or before[name] != value}
