"""What the ranks wrote, as lines.

Runs wherever records are read. Owns the order of ranks and the folding of their equal lines. Must not know how lines are shown.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from gpulayer_nb.records.rank_page import Line, RankPage

MAX_LINES = 2_000  # kept per rank; older ones are counted, not kept


@dataclass(frozen=True, slots=True)
class FoldedLine:
    """A line as the reader sees it. `similar` other ranks wrote it too; `first_rank` is the rank it is shown under."""

    line: Line
    similar: int
    first_rank: int


class OutputLog:
    """Lines per rank; `write` may be called from any thread. Readers get copies."""

    def __init__(self, max_lines: int = MAX_LINES) -> None:
        self.max_lines = max_lines
        self._lock = threading.Lock()
        self._texts: dict[int, RankPage] = {}
        self._version = 0

    @property
    def version(self) -> int:
        """Grows with every write, so that a view can tell whether anything is new."""
        return self._version

    def write(self, rank: int, stream: str, text: str) -> None:
        with self._lock:
            if rank not in self._texts:
                self._texts[rank] = RankPage(self.max_lines)
            self._texts[rank].write(stream, text)
            self._version += 1

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that wrote something, in order."""
        with self._lock:
            return tuple(sorted(self._texts))

    def dropped(self, rank: int) -> int:
        """How many of the rank's lines are no longer kept."""
        with self._lock:
            return self._texts[rank].dropped if rank in self._texts else 0

    def count(self, rank: int) -> int:
        """How many lines the rank wrote, kept or not."""
        with self._lock:
            return self._texts[rank].dropped + len(self._texts[rank].lines) if rank in self._texts else 0

    def lines(self, rank: int, last: int | None = None) -> list[Line]:
        """Copies of the rank's lines (the `last` ones), oldest first. Wiped bars are left out."""
        with self._lock:
            return self._copy(rank, last)

    def text(self, *, prefix: bool = True) -> str:
        """All kept lines in rank order, each ending in a newline; with `prefix`, each begins with its rank.

        A progress bar that several ranks drew is given once, under the first of them.
        """
        out = []
        for rank, folded in self.folded().items():
            lead = f"[rank {rank}] " if prefix else ""
            if dropped := self.dropped(rank):
                out.append(f"{lead}… {dropped} earlier lines are not kept")
            for item in folded:
                if item.line.rewritten and item.first_rank != rank:
                    continue
                out.append((lead + item.line.shown + similar_words(item.similar if item.line.rewritten else 0)).rstrip())
        return "".join(line + "\n" for line in out)

    def folded(self, last: int | None = None) -> dict[int, list[FoldedLine]]:
        """The lines of each rank in rank order, matched with equal lines of other ranks (its k-th with their k-th)."""
        with self._lock:
            kept = {rank: self._copy(rank, last) for rank in sorted(self._texts)}
        owners: dict[tuple[str, int], list[int]] = {}
        for rank, lines in kept.items():
            for key in _occurrences(lines):
                owners.setdefault(key, []).append(rank)
        return {
            rank: [
                FoldedLine(line, len(owners[key]) - 1, owners[key][0])
                for line, key in zip(lines, _occurrences(lines), strict=True)
            ]
            for rank, lines in kept.items()
        }

    def since(self, rank: int, start: int) -> tuple[int, list[Line]]:
        """(number of its first line, lines): the rank's lines from its `start`-th on; those no longer kept are skipped."""
        with self._lock:
            text = self._texts.get(rank)
            if text is None:
                return start, []
            first = max(start, text.dropped)
            return first, [line.copied() for line in islice(text.lines, first - text.dropped, None)]

    def _copy(self, rank: int, last: int | None) -> list[Line]:
        text = self._texts.get(rank)
        if text is None:
            return []
        skip = 0 if last is None else max(0, len(text.lines) - last)
        return [line.copied() for line in islice(text.lines, skip, None) if not line.is_wiped]


class OutputReader:
    """Reads a log once from front to back, line by line; a line that is still open is given when it closes."""

    def __init__(self, log: OutputLog) -> None:
        self._log = log
        self._next: dict[int, int] = {}  # rank: number of the first line not looked at
        self._open: dict[int, set[int]] = {}  # rank: numbers of lines passed over because they were open

    def take(self, *, everything: bool = False) -> dict[int, list[Line]]:
        """New closed lines in rank order; with `everything` the open ones too."""
        taken: dict[int, list[Line]] = {}
        for rank in self._log.ranks:
            waiting = self._open.setdefault(rank, set())
            begin = min([self._next.get(rank, 0), *waiting])
            first, lines = self._log.since(rank, begin)
            for number, line in enumerate(lines, first):
                if number < self._next.get(rank, 0) and number not in waiting:
                    continue
                if line.is_open and not everything:
                    waiting.add(number)
                    continue
                waiting.discard(number)
                if not line.is_wiped:
                    taken.setdefault(rank, []).append(line)
            self._next[rank] = max(self._next.get(rank, 0), first + len(lines))
            self._open[rank] = {number for number in waiting if number >= first}
        return taken


def labelled(taken: dict[int, list[Line]], *, fold: bool) -> list[str]:
    """`[rank 0] line` in rank order. Equal lines of later ranks fold into the first; without `fold` only bars do."""
    owners: dict[tuple[str, int], list[int]] = {}
    for rank, lines in taken.items():
        for key in _occurrences(lines):
            owners.setdefault(key, []).append(rank)
    out = []
    for rank, lines in taken.items():
        for line, key in zip(lines, _occurrences(lines), strict=True):
            folds = fold or line.rewritten
            if not folds or owners[key][0] == rank:
                out.append(f"[rank {rank}] {line.shown}{similar_words(len(owners[key]) - 1 if folds else 0)}".rstrip())
    return out


def similar_words(similar: int) -> str:
    """`  [3 similar]`, or nothing."""
    return f"  [{similar} similar]" if similar else ""


def _occurrences(lines: list[Line]) -> Iterator[tuple[str, int]]:
    seen: Counter[str] = Counter()
    for line in lines:
        key = line.fold_key
        seen[key] += 1
        yield key, seen[key]
