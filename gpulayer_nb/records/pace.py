"""How fast a run goes and how long it will take.

Runs wherever records are read. Owns rates and the estimate of the end. Must not know clocks: times come with the records.
"""

from __future__ import annotations

import math
from collections import deque

from gpulayer_nb.records.record import EpochMetrics, FitStarted, Progress, StepMetrics

WINDOW_SECONDS = 30.0  # the estimate looks back this far
FIRST_STEPS = 10  # no estimate before so many steps: the first ones are slow


class Pace:
    """Fed with rank 0's records in order. Validation time is kept apart from training time."""

    def __init__(self) -> None:
        self.fit: FitStarted | None = None
        self.last_step = 0
        self.samples_per_second: float | None = None  # summed over ranks, as last measured
        self._validation_seconds = 0.0
        self._validations = 0
        self._samples = 0
        self._samples_after_first = 0
        self._marks: deque[tuple[float, int]] = deque()  # (training seconds, global_step)
        self._first_seconds: float | None = None

    def start(self, record: FitStarted) -> None:
        self.fit = record
        self.last_step = record.start_step

    def steps(self, record: StepMetrics) -> None:
        if not record.steps:
            return
        now = record.time - self._validation_seconds
        self.last_step = record.steps[-1]
        self._samples += record.samples
        if self._first_seconds is None:
            self._first_seconds = now
        else:
            self._samples_after_first += record.samples
        self._marks.append((now, self.last_step))
        while len(self._marks) > 2 and now - self._marks[1][0] >= WINDOW_SECONDS:
            self._marks.popleft()

    def epoch(self, record: EpochMetrics) -> None:
        if record.split == "val":
            self._validation_seconds += record.seconds
            self._validations += 1

    def progress(self, record: Progress) -> None:
        if record.phase == "train" and record.samples_per_second is not None:
            self.samples_per_second = record.samples_per_second

    @property
    def mean_samples_per_second(self) -> float | None:
        """Over all training steps after the first record; the last rate where there are too few."""
        seconds = self._marks[-1][0] - self._first_seconds if self._marks and self._first_seconds is not None else 0.0
        return self._samples_after_first / seconds if seconds > 0 and self._samples_after_first else self.samples_per_second

    @property
    def steps_per_epoch(self) -> int | None:
        if self.fit is None or not self.fit.batches_per_epoch:
            return None
        return math.ceil(self.fit.batches_per_epoch / max(1, self.fit.accumulate_grad_batches))

    @property
    def end_step(self) -> int | None:
        """The global_step at which the run will end: by epochs or by max_steps, whichever comes first; None if unknown."""
        if self.fit is None:
            return None
        ends = [] if self.fit.max_steps is None else [self.fit.max_steps]
        if self.fit.max_epochs is not None and self.steps_per_epoch is not None:
            ends.append(self.fit.start_step + (self.fit.max_epochs - self.fit.start_epoch) * self.steps_per_epoch)
        return min(ends) if ends else None

    def eta_seconds(self) -> float | None:
        """Seconds to the end, from the last 30 s of steps and the measured validations; None when it cannot be known yet."""
        end, done = self.end_step, self.last_step - (self.fit.start_step if self.fit else 0)
        if end is None or done < FIRST_STEPS or len(self._marks) < 2:
            return None
        (early, from_step), (late, to_step) = self._marks[0], self._marks[-1]
        if to_step <= from_step or late <= early:
            return None
        seconds = max(0, end - self.last_step) * (late - early) / (to_step - from_step)
        if self._validations and self.steps_per_epoch:
            epochs_done = max(1, round(done / self.steps_per_epoch))
            epochs_left = math.ceil(max(0, end - self.last_step) / self.steps_per_epoch)
            seconds += epochs_left * self._validation_seconds / max(epochs_done, self._validations)
        return seconds
