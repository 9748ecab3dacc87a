"""What the ranks wrote, as lines.

Runs wherever records are read. Owns partial lines, carriage returns, the limit on kept lines and the folding of equal lines.
Must not know how lines are shown.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

MAX_LINES = 2_000  # kept per rank; older ones are counted, not kept
MAX_LINE_CHARACTERS = 10_000  # of one line; the rest is cut and said
REACH = 24  # lines above its last that a stream may still rewrite (bars stacked with cursor-up)

_CONTROL = re.compile(r"(\n|\r|\x08|\x1b\[\d*[AK])")
_UNFINISHED_ESCAPE = re.compile(r"\x1b(\[[\d;?]*)?$")
_BAR_DETAIL = re.compile(r"[\d\s.,:?#=>\-\u2581-\u258f]+")  # what differs between equal bars of two ranks
_CUT = " … (line cut)"


@dataclass(slots=True)
class Line:
    """One line of one rank. `rewritten`: a carriage return wrote over it, as a progress bar does."""

    stream: str
    text: str = ""
    rewritten: bool = False
    is_open: bool = True  # no newline yet

    @property
    def shown(self) -> str:
        return self.text.rstrip() if self.rewritten else self.text

    @property
    def is_wiped(self) -> bool:
        """A bar that erased itself when it was done."""
        return self.rewritten and not self.text.strip()

    @property
    def fold_key(self) -> str:
        """Lines with equal keys fold. Bars differ in their numbers only, so theirs are left out."""
        return "bar:" + _BAR_DETAIL.sub("", self.text) if self.rewritten else "line:" + self.text


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
        self._texts: dict[int, _RankText] = {}
        self._version = 0

    @property
    def version(self) -> int:
        """Grows with every write, so that a view can tell whether anything is new."""
        return self._version

    def write(self, rank: int, stream: str, text: str) -> None:
        with self._lock:
            if rank not in self._texts:
                self._texts[rank] = _RankText(self.max_lines)
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
            return first, [_copied(line) for line in islice(text.lines, first - text.dropped, None)]

    def _copy(self, rank: int, last: int | None) -> list[Line]:
        text = self._texts.get(rank)
        if text is None:
            return []
        skip = 0 if last is None else max(0, len(text.lines) - last)
        return [_copied(line) for line in islice(text.lines, skip, None) if not line.is_wiped]


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


def _copied(line: Line) -> Line:
    return Line(line.stream, line.text, line.rewritten, line.is_open)


class _RankText:
    """One rank's lines, and where each of its streams stands."""

    def __init__(self, max_lines: int) -> None:
        self.lines: deque[Line] = deque()
        self.dropped = 0
        self._max_lines = max_lines
        self._pens: dict[str, _Pen] = {}

    def write(self, stream: str, text: str) -> None:
        if stream not in self._pens:
            self._pens[stream] = _Pen(stream, self)
        self._pens[stream].write(text)

    def add(self, line: Line) -> None:
        self.lines.append(line)
        if len(self.lines) > self._max_lines:
            self.lines.popleft()
            self.dropped += 1


class _Pen:
    """A stream's cursor, as a terminal would move it: newline, return, backspace, up, erase to the end of the line.

    Each stream writes its own lines, so a bar on stderr stays one line while stdout goes on below it.
    """

    def __init__(self, stream: str, page: _RankText) -> None:
        self._stream = stream
        self._page = page
        self._rows: list[Line] = []  # the last REACH lines of this stream
        self._row = 0  # == len(_rows): on a line that does not exist yet
        self._column = 0
        self._held = ""  # the begun half of an escape sequence

    def write(self, text: str) -> None:
        text = self._held + text
        unfinished = _UNFINISHED_ESCAPE.search(text)
        self._held = unfinished.group() if unfinished else ""
        if self._held:
            text = text[: -len(self._held)]
        for token in _CONTROL.split(text):
            if token == "\n":
                self._line().is_open = False
                self._row, self._column = self._row + 1, 0
            elif token == "\r":
                self._column = 0
            elif token == "\x08":
                self._column = max(0, self._column - 1)
            elif token.startswith("\x1b[") and token[-1] == "A":
                self._row = max(0, self._row - int(token[2:-1] or 1))
            elif token.startswith("\x1b[") and token[-1] == "K":
                self._erase(token)
            elif token:
                self._put(token)

    def _line(self) -> Line:
        if self._row == len(self._rows):
            line = Line(self._stream)
            self._rows.append(line)
            self._page.add(line)
            if len(self._rows) > REACH:
                del self._rows[0]
                self._row -= 1
        return self._rows[self._row]

    def _put(self, text: str) -> None:
        line = self._line()
        old, at = line.text, self._column
        if at < len(old):
            line.rewritten = True
            # Colour codes have no width, so columns of coloured text cannot be matched: the whole line is replaced.
            coloured = "\x1b" in old or "\x1b" in text
            line.text = old[:at] + text + ("" if coloured else old[at + len(text) :])
        elif len(old) < MAX_LINE_CHARACTERS:
            line.text = old + text
        self._column = at + len(text)
        if len(line.text) > MAX_LINE_CHARACTERS and not line.text.endswith(_CUT):
            line.text = line.text[:MAX_LINE_CHARACTERS] + _CUT

    def _erase(self, token: str) -> None:
        line = self._line()
        kept = "" if token[2:-1] == "2" else line.text[: self._column]
        line.rewritten = line.rewritten or kept != line.text
        line.text = kept
        self._column = min(self._column, len(kept))
