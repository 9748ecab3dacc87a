"""Writes into the run's folder here what ranks write that do not see it: records and output, in the same files.

Runs in the process that drives the run, on the tap's thread. Owns those files; ranks that see the folder write their own.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from gpulayer_nb.records.run_folder import RunFolder
from gpulayer_nb.records.run_spec import RunSpec


class RunKeeper:
    """For the ranks in `ranks`; what others publish passes by."""

    def __init__(self, folder: RunFolder, ranks: Collection[int]) -> None:
        self._folder, self._ranks = folder, frozenset(ranks)
        self._lock = threading.Lock()
        self._is_full = False

    @classmethod
    def for_specs(cls, folder: RunFolder, specs: Sequence[RunSpec]) -> RunKeeper:
        return cls(folder, [spec.place.rank for spec in specs if not spec.folder])

    def batch(self, batch: dict[str, Any]) -> None:
        """One published batch, in its rank's order."""
        if batch["rank"] in self._ranks:
            self._append(self._folder.rank_records(batch["rank"]), json.dumps(batch) + "\n")

    def output(self, rank: int, text: str) -> None:
        if rank in self._ranks:
            self._append(self._folder.log(rank), text)

    def _append(self, path: Path, text: str) -> None:
        """A full disk ends the keeping, not the run."""
        with self._lock:
            if self._is_full:
                return
            try:
                with path.open("a") as file:
                    file.write(text)
            except OSError as error:
                self._is_full = True
                warnings.warn(f"The run's folder {self._folder.path} takes no more: {error.strerror}.", stacklevel=2)
