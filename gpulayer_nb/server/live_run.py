"""A run that is on, as the panel shows it: bounded in memory however long the run.

Runs in the Jupyter server, fed by a tap's thread or from the run folder, read by the service's. Owns what is kept of a run.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from gpulayer_nb.records import record as kinds
from gpulayer_nb.records.pace import Pace
from gpulayer_nb.records.rank_table import RankRow, RankTable
from gpulayer_nb.records.run_folder import RunFolder

CURVE_POINTS = 60
RATES = 40  # a rank's last samples/s, one a second
HEAD_BYTES, TAIL_BYTES = 1 << 17, 1 << 19  # of records.jsonl, for who comes late


class ShortCurve:
    """The whole of a curve in at most `CURVE_POINTS` points: means of equal stretches, which double when there are too many."""

    def __init__(self) -> None:
        self._points: list[float] = []
        self._stride, self._sum, self._count = 1, 0.0, 0

    def add(self, values: Iterable[float | None]) -> None:
        for value in values:
            if value is None or value != value or value in (float("inf"), float("-inf")):
                continue
            self._sum, self._count = self._sum + value, self._count + 1
            if self._count == self._stride:
                self._points.append(self._sum / self._count)
                self._sum, self._count = 0.0, 0
                if len(self._points) >= CURVE_POINTS:
                    self._points = [(a + b) / 2 for a, b in zip(self._points[::2], self._points[1::2], strict=True)]
                    self._stride *= 2

    @property
    def points(self) -> list[float]:
        return [*self._points, self._sum / self._count] if self._count else list(self._points)


class LiveRun:
    """`take` may be called from any thread; readers get values."""

    def __init__(self, run_id: str, clock: Callable[[], float] = time.time) -> None:
        self.run_id = run_id
        self._clock = clock
        self._lock = threading.RLock()
        self._seen: dict[int, int] = {}  # rank → number of its last batch
        self._table, self._pace, self._curve = RankTable(), Pace(), ShortCurve()
        self._rates: dict[int, deque[float]] = {}
        self.run: kinds.RunStarted | None = None
        self.fit: kinds.FitStarted | None = None
        self.progress: kinds.Progress | None = None
        self.end: kinds.RunEnded | None = None
        self.cause: kinds.RankFailed | None = None
        self.metric: str | None = None  # the run's main metric
        self.values: dict[str, float] = {}  # the last step's
        self.state = "starting"
        self._done: set[int] = set()
        self._read = 0  # bytes of records.jsonl

    def read_folder(self, folder: RunFolder) -> None:
        """Takes in what is new in its folder; of a long past only how it began and how it stands."""
        try:
            with folder.records.open("rb") as file:
                size = file.seek(0, 2)
                if self._read == 0 and size > HEAD_BYTES + TAIL_BYTES:
                    file.seek(0)
                    self.take_lines(file.read(HEAD_BYTES))
                    file.seek(size - TAIL_BYTES)
                    self._read = size - TAIL_BYTES + len(file.readline())
                file.seek(self._read)
                news = file.read()
        except FileNotFoundError:
            return
        whole = news.rfind(b"\n") + 1
        self._read += whole
        self.take_lines(news[:whole])

    def take_lines(self, lines: bytes) -> None:
        for line in lines.splitlines():
            try:
                self.take(json.loads(line))
            except ValueError:
                continue  # cut: the end of the head, or a crash

    def take(self, batch: dict[str, Any]) -> None:
        """One published batch; one that came before is left out."""
        rank, number = batch["rank"], batch["seq"]
        with self._lock:
            if number >= 0:
                if number <= self._seen.get(rank, -1):
                    return
                self._seen[rank] = number
            for data in batch["records"]:
                record = kinds.decode(data)
                if record is not None:
                    self.apply(record)

    def apply(self, record: kinds.Record) -> None:
        now = self._clock()
        with self._lock:
            if isinstance(record, kinds.RunStarted):
                self.run = record
                self._table.start(record)
            elif isinstance(record, kinds.FitStarted):
                self.fit, self.state = record, "running"
                self._pace.start(record)
            elif isinstance(record, kinds.StepMetrics):
                self._steps(record)
            elif isinstance(record, kinds.EpochMetrics):
                self._pace.epoch(record)
            elif isinstance(record, kinds.Progress):
                self.progress, self.state = record, "running"
                self._pace.progress(record)
            elif isinstance(record, kinds.RankStatus):
                self.state = "running" if self.state == "starting" else self.state
                self._table.status(record, now)
                if record.samples_per_second is not None:
                    self._rates.setdefault(record.rank, deque(maxlen=RATES)).append(record.samples_per_second)
            elif isinstance(record, kinds.RankFailed):
                self._table.failed(record, now)
                if not record.consequence and self.cause is None:
                    self.cause = record
            elif isinstance(record, kinds.RankDone):
                self._table.left(record, now)
                self._done.add(record.rank)
            elif isinstance(record, kinds.EngineDied):
                self._table.died(record)
            elif isinstance(record, kinds.RunEnded):
                self.end, self.state = record, record.state

    def _steps(self, record: kinds.StepMetrics) -> None:
        self._pace.steps(record)
        self.state = "running"
        if self.metric is None:
            shown = self.fit.prog_bar if self.fit else ()
            self.metric = next((name for name in (*shown, *record.values) if name in record.values), None)
        if self.metric in record.values:
            self._curve.add(record.values[self.metric])
        for name, values in record.values.items():
            if values and values[-1] is not None:
                self.values[name] = values[-1]

    @property
    def is_left(self) -> bool:
        """Whether every rank has left it: a run may end without another word to the tap."""
        return self.run is not None and len(self._done) >= self.run.num_nodes * self.run.devices

    def rows(self) -> tuple[RankRow, ...]:
        with self._lock:
            return self._table.rows(self._clock())

    def rates(self, rank: int) -> list[float]:
        with self._lock:
            return list(self._rates.get(rank, ()))

    def curve(self) -> list[float]:
        with self._lock:
            return self._curve.points

    @property
    def last_step(self) -> int:
        return self._pace.last_step

    @property
    def end_step(self) -> int | None:
        return self._pace.end_step

    @property
    def eta_seconds(self) -> float | None:
        with self._lock:
            return self._pace.eta_seconds() if self.end is None else None

    @property
    def samples_per_second(self) -> float | None:
        return self._pace.samples_per_second
