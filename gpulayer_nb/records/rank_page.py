"""The page that one rank writes on, as a terminal would show it.

Runs wherever records are read. Owns cursors: partial lines, carriage returns, bars. Must not know other ranks or threads.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

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

    def copied(self) -> Line:
        return Line(self.stream, self.text, self.rewritten, self.is_open)

    @property
    def is_wiped(self) -> bool:
        """A bar that erased itself when it was done."""
        return self.rewritten and not self.text.strip()

    @property
    def fold_key(self) -> str:
        """Lines with equal keys fold. Bars differ in their numbers only, so theirs are left out."""
        return "bar:" + _BAR_DETAIL.sub("", self.text) if self.rewritten else "line:" + self.text


class RankPage:
    """One rank's lines, and where each of its streams stands."""

    def __init__(self, max_lines: int) -> None:
        self.lines: deque[Line] = deque()
        self.dropped = 0
        self._max_lines = max_lines
        self._pens: dict[str, Pen] = {}

    def write(self, stream: str, text: str) -> None:
        if stream not in self._pens:
            self._pens[stream] = Pen(stream, self)
        self._pens[stream].write(text)

    def add(self, line: Line) -> None:
        self.lines.append(line)
        if len(self.lines) > self._max_lines:
            self.lines.popleft()
            self.dropped += 1


class Pen:
    """A stream's cursor, as a terminal would move it: newline, return, backspace, up, erase to the end of the line.

    Each stream writes its own lines, so a bar on stderr stays one line while stdout goes on below it.
    """

    def __init__(self, stream: str, page: RankPage) -> None:
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
        elif not old.endswith(_CUT):
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
