"""Gives the loggers what is reported of a fit. Runs on global rank 0; must not know what a logger does with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.records.record import EpochMetrics, Record, StepMetrics
from gpulayer_nb.train.reporter import Report


class LoggerFeed:
    """A report that also feeds loggers; a name with step values has its epoch mean under `<name>_epoch`."""

    def __init__(self, loggers: Sequence[Any], report: Report) -> None:
        self._loggers, self._report = loggers, report
        self._in_steps: set[str] = set()

    def __call__(self, record: Record) -> None:
        self._report(record)
        if isinstance(record, StepMetrics):
            self._steps(record)
        elif isinstance(record, EpochMetrics):
            means = {f"{name}_epoch" if name in self._in_steps else name: value for name, value in record.values.items()}
            self._log({"epoch": float(record.epoch), **means}, record.global_step)

    def start(self, options: FitOptions, world_size: int, module: Any, log_dir: Path | None) -> None:
        """Open every logger and tell it the options that are set, and the module's own `hparams`."""
        defaults = FitOptions()
        chosen = {f.name: getattr(options, f.name) for f in dataclasses.fields(options)}
        params = {name: value for name, value in chosen.items() if value != getattr(defaults, name) or name == "max_epochs"}
        params |= {"world_size": world_size, **dict(getattr(module, "hparams", None) or {})}
        for logger in self._loggers:
            if callable(start := getattr(logger, "start", None)):
                start(log_dir)
            logger.log_hyperparams(params)

    def finalize(self, status: str) -> None:
        for logger in self._loggers:
            logger.finalize(status)

    def _steps(self, record: StepMetrics) -> None:
        self._in_steps.update(record.values)
        for place, step in enumerate(record.steps):
            values = {name: value for name, column in record.values.items() if (value := column[place]) is not None}
            if values:
                self._log({"epoch": float(record.epochs[place]), **values}, step)

    def _log(self, metrics: dict[str, float], step: int) -> None:
        for logger in self._loggers:
            logger.log_metrics(metrics, step)
