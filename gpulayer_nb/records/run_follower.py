"""Reads a run folder while it is written: every record once, nothing left out.

Runs wherever a run is watched that another process drives. Owns how far each file was read.
"""

from __future__ import annotations

from pathlib import Path

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import RankOutput, Record, RunEnded
from gpulayer_nb.records.run_folder import RunFolder, records_of


class RunFollower:
    """`read` brings the history up to date with what is on disk; the run's end comes last whatever the files' order."""

    def __init__(self, folder: RunFolder, history: RunHistory) -> None:
        self._folder, self._history = folder, history
        self._offsets: dict[Path, int] = {}
        self._end: RunEnded | None = None

    def read(self) -> bool:
        """True if anything was new."""
        news = self._read_records(self._folder.records)
        for rank in range(self._history.world_size):
            if rank:
                news |= self._read_records(self._folder.rank_records(rank))
            news |= self._read_log(rank)
        if self._end is not None and not self._history.is_over:
            self._history.apply(self._end)
        return news

    def _read_records(self, path: Path) -> bool:
        text = self._new_text(path, whole_lines=True)
        for line in text.splitlines():
            for record in records_of(line):
                self._take(record)
        return bool(text)

    def _take(self, record: Record) -> None:
        if isinstance(record, RunEnded):
            self._end = record
        else:
            self._history.apply(record)

    def _read_log(self, rank: int) -> bool:
        """A log holds both streams of a rank in the order in which they were written."""
        text = self._new_text(self._folder.log(rank), whole_lines=False)
        if text:
            self._history.apply(RankOutput(rank=rank, stream="stdout", text=text))
        return bool(text)

    def _new_text(self, path: Path, *, whole_lines: bool) -> str:
        offset = self._offsets.get(path, 0)
        try:
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read()
        except FileNotFoundError:
            return ""
        if whole_lines:
            data = data[: data.rfind(b"\n") + 1]
        else:
            data = data[: whole_characters(data)]
        self._offsets[path] = offset + len(data)
        return data.decode(errors="replace")


def whole_characters(data: bytes) -> int:
    """Bytes up to the last whole UTF-8 character: a writer may be in the middle of one."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return len(data)
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) if back >= length else len(data) - back
    return len(data)
