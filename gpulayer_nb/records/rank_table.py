"""What every rank is doing, as one row each.

Runs wherever records are read. Owns how records change a rank's state. Must not know how rows are shown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpulayer_nb.plan.topology import RankPlace, Topology
from gpulayer_nb.records.record import EngineDied, RankDone, RankFailed, RankStatus, RunStarted

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
    seen: float | None = None
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
            row, state=state, global_step=step, samples_per_second=rate, memory_bytes=memory, seen=now
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
        """The rows at this moment, silent ranks named so."""
        return tuple(
            replace(row, state="silent", detail=f"last seen {now - row.seen:.0f} s ago")
            if row.seen is not None and not row.done and row.state != "dead" and now - row.seen > SILENT_SECONDS
            else row
            for row in self._rows
        )

    def _at(self, rank: int) -> RankRow | None:
        return self._rows[rank] if 0 <= rank < len(self._rows) else None
