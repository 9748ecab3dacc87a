"""What every rank is doing, as one row each.

Runs wherever records are read. Owns how records change a rank's state. Must not know how rows are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from gpulayer_nb.plan.topology import RankPlace, Topology
from gpulayer_nb.records.record import EngineDied, RankDone, RankFailed, RankStatus, RunStarted

STRAGGLER_RATIO, STRAGGLER_SECONDS = 1.5, 0.005  # a rank is late that takes so many times, and so much, longer than the others
SILENT_SECONDS = 3.0  # a rank reports once a second; after this long without a word it is called silent


@dataclass(frozen=True, slots=True)
class RankRow:
    """One rank. `seen` is when its last record arrived (on this machine's clock); None if none has."""

    place: RankPlace
    worker: str = ""
    device: str = ""
    pid: int | None = None
    state: str = "starting"
    detail: str = ""  # words after the state, for example the type of the error
    global_step: int = 0
    samples_per_second: float | None = None
    memory_bytes: int | None = None
    own_seconds: float | None = None  # of a training step, before the exchange
    seen: float | None = None
    age_seconds: float | None = None  # since its last record, when the rows were asked for
    is_straggler: bool = False  # the others wait for it in every step
    done: bool = False  # it has left the run

    @property
    def label(self) -> str:
        """`rank 3 (node 1, local rank 1, worker b)`."""
        words = str(self.place)
        return f"{words[:-1]}, worker {self.worker})" if self.worker else words


class RankTable:
    """Rows in rank order. Not thread-safe."""

    def __init__(self) -> None:
        self._rows: list[RankRow] = []

    def start(self, run: RunStarted) -> None:
        def of(names: tuple[str, ...], rank: int) -> str:
            return names[rank] if rank < len(names) else ""

        self._rows = [
            RankRow(
                place,
                of(run.workers, place.rank),
                of(run.device_names, place.rank),
                run.pids[place.rank] if place.rank < len(run.pids) else None,
            )
            for place in Topology(run.num_nodes, run.devices).places()
        ]

    def status(self, record: RankStatus, now: float) -> None:
        row = self._at(record.rank)
        if row is None or row.state == "dead":
            return
        state = row.state if row.done else record.state
        rate = None if row.done else record.samples_per_second
        memory = row.memory_bytes if record.memory_bytes is None else record.memory_bytes
        step = max(row.global_step, record.global_step)
        self._rows[record.rank] = replace(
            row,
            state=state,
            global_step=step,
            samples_per_second=rate,
            memory_bytes=memory,
            own_seconds=record.own_seconds if record.own_seconds is not None else row.own_seconds,
            seen=now,
        )

    def failed(self, record: RankFailed, now: float) -> None:
        """Only the first cause marks a rank as failed: the others have merely lost their connection."""
        row = self._at(record.rank)
        if row is None or row.state == "dead":
            return
        if record.consequence:
            self._rows[record.rank] = replace(row, state="idle", detail="released", done=True, seen=now, samples_per_second=None)
            return
        known = record.cell is not None and record.cell_line is not None
        where = f", cell {record.cell} line {record.cell_line}" if known else ""
        self._rows[record.rank] = replace(
            row, state="failed", detail=record.error_type + where, done=True, seen=now, samples_per_second=None
        )

    def left(self, record: RankDone, now: float) -> None:
        row = self._at(record.rank)
        if row is not None and not row.done and row.state != "dead":
            state = "failed" if record.state == "failed" else "idle"
            self._rows[record.rank] = replace(row, state=state, done=True, seen=now, samples_per_second=None)

    def died(self, record: EngineDied) -> RankRow | None:
        """Marks the rank of a process that is gone; None if it was none of this run's."""
        for rank, row in enumerate(self._rows):
            if row.pid == record.pid and row.worker in (record.worker, ""):
                how = f"signal {record.signal}" if record.signal is not None else f"exit code {record.exit_code}"
                self._rows[rank] = replace(row, state="dead", detail=how, done=True, samples_per_second=None)
                return self._rows[rank]
        return None

    def ended(self, done_step: int) -> None:
        """The run is over: nobody is at work any more, and all ranks have done the steps up to `done_step` (0: not all have)."""
        for rank, row in enumerate(self._rows):
            state = row.state if row.state in ("failed", "dead") else "idle"
            self._rows[rank] = replace(
                row, state=state, samples_per_second=None, done=True, global_step=max(row.global_step, done_step)
            )

    def rows(self, now: float) -> tuple[RankRow, ...]:
        """The rows at this moment, silent ranks named so, and a straggler."""
        rows = [_at_this_moment(row, now) for row in self._rows]
        late = straggler(rows)
        if late is not None:
            row = rows[late]
            others = [other.own_seconds for other in rows if other is not row and other.own_seconds is not None]
            words = f"late: {_milliseconds(row.own_seconds or 0.0)} a step alone, the others {_milliseconds(median(others))}"
            rows[late] = replace(row, is_straggler=True, detail=words)
        return tuple(rows)

    def _at(self, rank: int) -> RankRow | None:
        return self._rows[rank] if 0 <= rank < len(self._rows) else None


def _at_this_moment(row: RankRow, now: float) -> RankRow:
    if row.seen is None or row.done or row.state == "dead":
        return row
    age = now - row.seen
    if age > SILENT_SECONDS:
        return replace(row, state="silent", age_seconds=age, detail=f"last seen {age:.0f} s ago")
    return replace(row, age_seconds=age)


def straggler(rows: Sequence[RankRow]) -> int | None:
    """The place of the rank for which the others wait; None where no one rank stands out."""
    alone = {at: row.own_seconds for at, row in enumerate(rows) if row.own_seconds is not None and row.state == "running"}
    if len(alone) < 2:
        return None
    slowest = max(alone, key=lambda at: alone[at])
    others = median(seconds for at, seconds in alone.items() if at != slowest)
    late = alone[slowest] > STRAGGLER_RATIO * others and alone[slowest] - others > STRAGGLER_SECONDS
    return slowest if late else None


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
