"""A run as its records tell it.

Runs in the kernel (fed by the tap's thread, read by the cell's) and wherever a run folder is read. Owns the run's state and
everything a view may ask of it. Must not know how anything is shown.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.records import record as kinds
from gpulayer_nb.records.metric_table import MetricTable
from gpulayer_nb.records.non_finite import NonFiniteMark, NonFiniteMarks
from gpulayer_nb.records.output_log import MAX_LINES, OutputLog
from gpulayer_nb.records.pace import Pace
from gpulayer_nb.records.rank_table import RankRow, RankTable

MAX_LINES_OF_CELL = 10_000  # kept per rank of a `%%ranks` cell, whose output is the result
MAX_KEPT = 1_000  # notices, marks and failures: enough to read, bounded in memory
OVER = ("finished", "stopped", "failed")


class RunHistory:
    """Everything known of one run. `apply` may be called from any thread; readers get copies or frozen records.

    Args:
        clock: seconds since the epoch on this machine.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._apply: dict[type[kinds.Record], Callable[[Any], None]] = {
            kinds.RunStarted: self._run_started, kinds.FitStarted: self._fit_started, kinds.StepMetrics: self._step_metrics,
            kinds.EpochMetrics: self._epoch_metrics, kinds.Progress: self._progressed, kinds.ProgBar: self._wanted_first,
            kinds.NonFinite: self._non_finite,
            kinds.CheckpointSaved: self._saved, kinds.Notice: self._noticed, kinds.RankStatus: self._rank_status,
            kinds.RankOutput: self._wrote, kinds.RankFailed: self._failed, kinds.RankDone: self._left,
            kinds.EngineDied: self._died, kinds.RunEnded: self._ended,
        }  # fmt: skip
        self.version = 0  # grows with every record
        self.run: kinds.RunStarted | None = None
        self.fit: kinds.FitStarted | None = None
        self.end: kinds.RunEnded | None = None
        self.progress: kinds.Progress | None = None
        self.state = "starting"  # one of RUN_STATES
        self.starting = ""  # what the start is waiting for, in a few words
        self.output = OutputLog(MAX_LINES)
        self._table, self._pace, self._ranks = MetricTable(), Pace(), RankTable()
        self._logged_to_prog_bar: tuple[str, ...] = ()
        self._notices: list[kinds.Notice] = []
        self._non_finite_marks = NonFiniteMarks()
        self._failures: list[kinds.RankFailed] = []
        self._deaths: list[kinds.EngineDied] = []
        self._checkpoints: list[kinds.CheckpointSaved] = []
        self._began: float | None = None
        self._over: float | None = None
        self._last_step_arrived: float | None = None

    def apply(self, record: kinds.Record) -> None:
        """Take in one record. Records come in the order in which they are to be believed."""
        handler = self._apply.get(type(record))
        with self._lock:
            if handler is not None:
                handler(record)
            self.version += 1

    def say(self, text: str) -> None:
        """What the start of the run is waiting for, in a few words."""
        with self._lock:
            self.starting = text
            self.version += 1

    def mark_stopping(self) -> None:
        """The user asked for a stop; the ranks are doing their last step."""
        with self._lock:
            if self.state not in OVER:
                self.state = "stopping"
                self.version += 1

    # What a view reads

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    @property
    def short_id(self) -> str:
        """The end of the run's id, enough to tell runs apart."""
        return self.run.run_id.rsplit("-", 1)[-1][:8] if self.run else ""

    @property
    def world_size(self) -> int:
        return self.run.num_nodes * self.run.devices if self.run else 0

    def header_line(self) -> str:
        """The run's shape in one line; what is not known yet is left out."""
        if self.run is None:
            return ""
        parts = [str(Topology(self.run.num_nodes, self.run.devices))]
        if self.fit is not None and self.fit.batch_size is not None:
            each, times = self.fit.batch_size, self.fit.accumulate_grad_batches
            accumulated = f" × {times} accumulated" if times > 1 else ""
            parts.append(f"batch {each} × {self.world_size}{accumulated} = global batch {each * self.world_size * times}")
        if self.run.mode == "train":
            parts.append("learning rate unchanged")
        parts.append(self.run.backend)
        workers = list(dict.fromkeys(self.run.workers))
        if self.run.num_nodes > 1 and self.run.simulated:
            parts.append("simulated nodes")
        elif 1 < len(workers) <= 4:
            parts.append("workers " + ", ".join(workers))
        return " · ".join(parts)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Metrics that have step values, in order of appearance."""
        with self._lock:
            return tuple(self._table.columns)

    @property
    def chosen(self) -> tuple[str, ...]:
        """Metrics that the user wants beside the progress bar, and first: logged so, or a plain model's loss and metrics."""
        return tuple(dict.fromkeys((*(self.fit.prog_bar if self.fit else ()), *self._logged_to_prog_bar)))

    def column(self, name: str, start: int = 0) -> tuple[array[int], array[float]]:
        """Steps and values of a metric from its `start`-th value on (copies)."""
        with self._lock:
            column = self._table.columns[name]
            return column.steps[start:], column.values[start:]

    def fewest_ranks(self, name: str) -> int | None:
        """The smallest number of ranks behind a mean of `name`; None if every rank always logged it."""
        with self._lock:
            column = self._table.columns.get(name)
            return column.fewest_ranks if column is not None else None

    def epochs(self, start: int = 0) -> tuple[kinds.EpochMetrics, ...]:
        """The epoch means of all splits, from the `start`-th on; names are those of `metrics`."""
        with self._lock:
            return tuple(
                replace(row, values={self._table.name_of(row.split, name): value for name, value in row.values.items()})
                for row in self._table.epochs[start:]
            )

    @property
    def epoch_ends(self) -> dict[int, int]:
        """0-based epoch → its last global_step."""
        with self._lock:
            return dict(self._table.epoch_ends)

    def step_times(self) -> list[tuple[int, float]]:
        """Some steps, rising, and when they were done, in seconds since the run began."""
        with self._lock:
            began = self._began or (self._table.times[0][1] if self._table.times else 0.0)
            return [(step, max(0.0, moment - began)) for step, moment in self._table.times]

    def rows(self) -> list[dict[str, Any]]:
        """One dict per step (`split` "step") and per epoch mean (`split` "train", "val", …), in rank 0's order."""
        with self._lock:
            return self._table.rows()

    @property
    def metrics(self) -> dict[str, float]:
        """The last epoch means of all splits under one roof."""
        with self._lock:
            return self._table.final()

    @property
    def last_step(self) -> int:
        return max(self._table.last_step, self.fit.start_step if self.fit else 0)

    def rank_rows(self) -> tuple[RankRow, ...]:
        with self._lock:
            return self._ranks.rows(self._clock())

    def rank_label(self, rank: int) -> str:
        """`rank 3 (node 1, local rank 1, worker b)`."""
        return next((row.label for row in self.rank_rows() if row.place.rank == rank), f"rank {rank}")

    @property
    def notices(self) -> tuple[kinds.Notice, ...]:
        return tuple(self._notices)

    @property
    def non_finite(self) -> tuple[NonFiniteMark, ...]:
        with self._lock:
            return self._non_finite_marks.marks

    @property
    def failures(self) -> tuple[kinds.RankFailed, ...]:
        """Every error that a rank raised, earliest first."""
        with self._lock:
            return tuple(sorted(self._failures, key=lambda f: f.time))

    @property
    def cause(self) -> kinds.RankFailed | None:
        """The first error that is not the echo of another."""
        return next((f for f in self.failures if not f.consequence), None)

    @property
    def deaths(self) -> tuple[kinds.EngineDied, ...]:
        return tuple(self._deaths)

    @property
    def checkpoints(self) -> tuple[kinds.CheckpointSaved, ...]:
        return tuple(self._checkpoints)

    @property
    def message(self) -> str:
        return self.end.message if self.end is not None else ""

    def elapsed_seconds(self) -> float:
        with self._lock:
            if self._began is None:
                return 0.0
            return max(0.0, (self._clock() if self._over is None else self._over) - self._began)

    def stalled_seconds(self) -> float:
        """How long ago the last step arrived, while steps are due; 0 otherwise."""
        with self._lock:
            training = self.state == "running" and (self.progress is None or self.progress.phase == "train")
            return self._clock() - self._last_step_arrived if training and self._last_step_arrived is not None else 0.0

    def eta_seconds(self) -> float | None:
        with self._lock:
            return None if self.state != "running" else self._pace.eta_seconds()

    @property
    def samples_per_second(self) -> float | None:
        """Summed over ranks: the latest rate while running, the mean once the run is over."""
        with self._lock:
            return self._pace.mean_samples_per_second if self.is_over else self._pace.samples_per_second

    @property
    def steps_per_epoch(self) -> int | None:
        return self._pace.steps_per_epoch

    @property
    def end_step(self) -> int | None:
        """The global_step at which the run will end, if that is known."""
        with self._lock:
            return self._pace.end_step

    # What each record does

    def _moment(self, record: kinds.Record) -> float:
        return record.time or self._clock()

    def _run_started(self, record: kinds.RunStarted) -> None:
        self.run = record
        self._began = self._moment(record)
        self._ranks.start(record)
        if record.mode in ("ranks", "launch"):
            self.output.max_lines = MAX_LINES_OF_CELL

    def _work(self) -> None:
        if self.state == "starting":
            self.state = "running"

    def _fit_started(self, record: kinds.FitStarted) -> None:
        self.fit = record
        self._pace.start(record)
        self._work()

    def _step_metrics(self, record: kinds.StepMetrics) -> None:
        self._table.add_steps(record)
        self._pace.steps(record)
        self._last_step_arrived = self._clock()
        self._work()

    def _epoch_metrics(self, record: kinds.EpochMetrics) -> None:
        self._table.add_epoch(record)
        self._pace.epoch(record)
        self._last_step_arrived = self._clock()

    def _progressed(self, record: kinds.Progress) -> None:
        self.progress = record
        self._pace.progress(record)
        self._work()

    def _wanted_first(self, record: kinds.ProgBar) -> None:
        self._logged_to_prog_bar = record.names

    def _non_finite(self, record: kinds.NonFinite) -> None:
        self._non_finite_marks.add(record)

    def _saved(self, record: kinds.CheckpointSaved) -> None:
        _keep(self._checkpoints, record)

    def _noticed(self, record: kinds.Notice) -> None:
        if all((n.text, n.level) != (record.text, record.level) for n in self._notices):
            _keep(self._notices, record)

    def _rank_status(self, record: kinds.RankStatus) -> None:
        self._ranks.status(record, self._clock())

    def _wrote(self, record: kinds.RankOutput) -> None:
        self.output.write(record.rank, record.stream, record.text)

    def _failed(self, record: kinds.RankFailed) -> None:
        for index, earlier in enumerate(self._failures):
            if (earlier.rank, earlier.error_type) == (record.rank, record.error_type):
                self._failures[index] = record  # the same error again, with its traceback drawn
                break
        else:
            _keep(self._failures, record)
        self._ranks.failed(record, self._clock())

    def _left(self, record: kinds.RankDone) -> None:
        self._ranks.left(record, self._clock())

    def _died(self, record: kinds.EngineDied) -> None:
        if self._ranks.died(record) is not None:
            _keep(self._deaths, record)

    def _ended(self, record: kinds.RunEnded) -> None:
        self.end = record
        self.state = record.state
        self._over = self._moment(record)
        self._ranks.ended(self._table.last_step if record.state == "finished" else 0)


def _keep(items: list[Any], item: Any) -> None:
    """Append, unless there are enough: the first ones tell what happened."""
    if len(items) < MAX_KEPT:
        items.append(item)
