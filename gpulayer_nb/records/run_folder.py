"""A run's folder on disk: `<root>/runs/<run_id>/`.

Used wherever a run is written or read. Owns the layout:
    run.json       what was asked, state, times
    records.jsonl  everything rank 0 published, one batch a line
    cell.py        the cell's source
    tracebacks.txt every rank's error, if the run failed
    logs/rank-N.log, checkpoints/
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulayer_nb.records.record import Record, decode, encode

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def default_root() -> Path:
    """`$GPULAYER_HOME`, else the user's data folder (XDG)."""
    if home := os.environ.get("GPULAYER_HOME"):
        return Path(home)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "gpulayer"


def new_run_id() -> str:
    """Sorts by time, unique on this machine: `20260131-142305-3f2a`."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


@dataclass(frozen=True)
class RunFolder:
    path: Path

    @classmethod
    def create(cls, run_id: str, root: Path | None = None) -> RunFolder:
        """A new, empty folder.

        Raises:
            OSError: it cannot be made there.
        """
        folder = cls((root or default_root()) / "runs" / run_id)
        folder.logs.mkdir(parents=True)
        return folder

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def records(self) -> Path:
        return self.path / "records.jsonl"

    def log(self, rank: int) -> Path:
        return self.logs / f"rank-{rank}.log"

    def rank_records(self, rank: int) -> Path:
        """What a rank other than 0 published: its state once a second, its failure."""
        return self.records if rank == 0 else self.logs / f"rank-{rank}.jsonl"

    @property
    def facts(self) -> Path:
        return self.path / "run.json"

    @property
    def elsewhere(self) -> Path:
        """Only a run whose rank 0 does not see this folder has one: where its checkpoints are, as JSON."""
        return self.path / "elsewhere.json"

    @property
    def result(self) -> Path:
        """What rank 0 of a detached run sent back: a pickled RankResult."""
        return self.path / "result.bin"

    @property
    def stop_requests(self) -> Path:
        """One byte for each time somebody asked to stop."""
        return self.path / "stop"

    def read_facts(self) -> dict[str, Any]:
        """run.json, or nothing if there is none yet, or none whole."""
        try:
            facts: dict[str, Any] = json.loads(self.facts.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return facts

    def append(self, *records: Record) -> None:
        """Adds what the driving process itself has to say: the run's start and its end. Ranks must not be writing."""
        batch = {"run_id": self.path.name, "rank": -1, "seq": -1, "records": [encode(record) for record in records]}
        text = json.dumps(batch) + "\n"
        with self.records.open("ab+") as lines:
            if lines.tell():
                lines.seek(-1, os.SEEK_END)
                if lines.read(1) != b"\n":  # a full disk has cut the last line short
                    text = "\n" + text
            lines.write(text.encode())

    def ask_to_stop(self) -> None:
        """Asks whoever drives the run to stop it; again for one stage harder."""
        with self.stop_requests.open("ab") as file:
            file.write(b".")

    @property
    def report_request(self) -> Path:
        """Somebody wants to know where the ranks are."""
        return self.path / "report-wanted"

    @property
    def report(self) -> Path:
        """Where the ranks were when it was last asked."""
        return self.path / "report.txt"

    def answer_report(self, make: Callable[[], str]) -> None:
        """For whoever drives the run: writes the report if it was asked for."""
        if self.report_request.exists():
            temporary = self.path / ".report"
            temporary.write_text(make())
            temporary.replace(self.report)
            self.report_request.unlink(missing_ok=True)

    def stops_asked(self) -> int:
        try:
            return self.stop_requests.stat().st_size
        except FileNotFoundError:
            return 0

    def write_facts(self, facts: dict[str, Any]) -> None:
        """Writes run.json whole or not at all."""
        temporary = self.path / f".run.json.{os.getpid()}"
        temporary.write_text(json.dumps(facts, indent=1))
        temporary.replace(self.facts)

    def write_cell(self, source: str) -> None:
        (self.path / "cell.py").write_text(source)

    def write_tracebacks(self, tracebacks: dict[int, str]) -> None:
        """Every rank's traceback of a failed run, without colours."""
        text = "\n\n".join(f"rank {rank}\n{_ANSI.sub('', tracebacks[rank])}" for rank in sorted(tracebacks))
        (self.path / "tracebacks.txt").write_text(text + "\n")

    def remove(self) -> None:
        """For a run that never began, or that nobody wants to keep."""
        shutil.rmtree(self.path, ignore_errors=True)

    def read_records(self) -> Iterator[Record]:
        """All records in rank 0's order; a half-written line is left out."""
        if not self.records.exists():
            return
        with self.records.open() as lines:
            for line in lines:
                if not line.endswith("\n"):
                    return
                yield from records_of(line)


def records_of(line: str) -> list[Record]:
    """The records of one line; none of a line that a full disk has cut short."""
    try:
        batch = json.loads(line)["records"]
    except (ValueError, TypeError, KeyError):
        return []
    return [record for data in batch if (record := decode(data)) is not None]
