"""Writes every step's means and every epoch's to `metrics.csv`. Runs on global rank 0."""

from __future__ import annotations

import csv
import json
import os
import time
from pathlib import Path
from typing import Any, TextIO

from gpulayer_nb.train.logger import versioned

FLUSH_SECONDS = 1.0  # a reader is at most so far behind


class CSVLogger:
    """One line per optimizer step and one per epoch mean; a metric that a line has not is empty there.

    Args:
        save_dir: `metrics.csv` goes to `<save_dir>/<name>/version_<n>`; None: to `<run folder>/<name>`.
        version: a number or a folder's name; None takes the next free number.
    """

    def __init__(self, save_dir: str | Path | None = None, name: str = "csv", version: int | str | None = None) -> None:
        self.save_dir, self.name, self.version = save_dir, name, version
        self.log_dir: str | None = None  # known once a fit is on
        self._columns: list[str] = []
        self._file: TextIO | None = None
        self._flushed = 0.0

    @property
    def path(self) -> Path:
        return Path(self.log_dir or ".") / "metrics.csv"

    def start(self, log_dir: Path | None) -> None:
        folder = versioned(self.save_dir, self.name, self.version, log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        self.log_dir, self._columns = str(folder), []
        self.path.unlink(missing_ok=True)  # a fit begins anew; a resumed one takes its lines back in load_state_dict

    def log_hyperparams(self, params: dict[str, Any]) -> None:
        (Path(self.log_dir or ".") / "hparams.json").write_text(json.dumps(params, indent=1, default=str))

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        row = {"step": step, **metrics}
        if not self._columns or not row.keys() <= set(self._columns):
            self._widen([*self._columns, *(name for name in row if name not in self._columns)])
        if self._file is None:
            self._file = self.path.open("a", newline="")
        csv.writer(self._file).writerow([row.get(name, "") for name in self._columns])
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self._flush()

    def finalize(self, status: str) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def state_dict(self) -> dict[str, Any]:
        self._flush()
        return {"path": str(self.path.absolute())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with the lines of the interrupted fit up to the checkpoint's step."""
        columns, rows = _read(Path(state["path"]))
        if columns:
            self._write(columns, [row for row in rows if int(row["step"]) <= state["step"]])

    def _flush(self) -> None:
        if self._file is not None:
            self._file.flush()
        self._flushed = time.monotonic()

    def _widen(self, columns: list[str]) -> None:
        """A new metric needs a new header: the lines so far are written again under it."""
        self.finalize("")
        self._write(columns, _read(self.path)[1])

    def _write(self, columns: list[str], rows: list[dict[str, str]]) -> None:
        self._columns = columns
        unfinished = self.path.with_suffix(".unfinished")
        with unfinished.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(rows)
        os.replace(unfinished, self.path)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None}


def _read(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    if not path.exists():
        return [], []
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    return list(reader.fieldnames or []), rows
