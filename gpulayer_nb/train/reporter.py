"""Turns what the ranks have agreed on into records. Speaks on global rank 0 only.

Must not know how records travel, and decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from gpulayer_nb.records.record import EpochMetrics, NonFinite, Notice, ProgBar, Progress, Record, StepMetrics
from gpulayer_nb.train.metric_exchange import EpochMeans, StepMeans

Report = Callable[[Record], None]


def drop(record: Record) -> None:
    """The report of a fit that nobody watches."""


class Reporter:
    def __init__(self, report: Report, rank: int) -> None:
        self._report = report if rank == 0 else drop
        self._shown_first = 0  # names told

    def record(self, record: Record) -> None:
        self._report(record)

    def notice(self, text: str, level: str = "note") -> None:
        self._report(Notice(time=time.time(), text=text, level=level))

    def prog_bar(self, names: Collection[str]) -> None:
        """Tell the names that were logged with `prog_bar`, if there are more of them than before. The set only grows."""
        if len(names) > self._shown_first:
            self._shown_first = len(names)
            self._report(ProgBar(time=time.time(), names=tuple(names)))

    def steps(self, means: StepMeans, first_step: int, epoch: int) -> None:
        """The steps `first_step`, `first_step + 1`, … of one epoch."""
        length = len(next(iter(means.values.values()), ()))
        now = time.time()
        if length:
            steps = tuple(range(first_step, first_step + length))
            self._report(
                StepMetrics(
                    time=now, steps=steps, epochs=(epoch,) * length, values=means.values, ranks=means.ranks, samples=means.samples
                )
            )  # fmt: skip
        for name, places in means.non_finite.items():
            order = sorted(places)
            self._report(
                NonFinite(time=now, name=name, steps=tuple(first_step + i for i in order), ranks=tuple(places[i] for i in order))
            )

    def progress(
        self, phase: str, epoch: int, batch_index: int, batches: int | None, global_step: int, samples_per_second: float | None
    ) -> None:
        self._report(
            Progress(
                time=time.time(), phase=phase, epoch=epoch, batch_index=batch_index, batches=batches, global_step=global_step,
                samples_per_second=samples_per_second,
            )
        )  # fmt: skip

    def epoch(self, split: str, epoch: int, global_step: int, means: EpochMeans, seconds: float) -> None:
        self._report(
            EpochMetrics(
                time=time.time(), split=split, epoch=epoch, global_step=global_step, values=means.values, samples=means.samples,
                seconds=seconds,
            )
        )  # fmt: skip
