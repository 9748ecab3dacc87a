"""The last lines of what each engine printed. Runs in the Jupyter server, fed by a tap's thread."""

from __future__ import annotations

from collections import deque

LINES, LINE_CHARACTERS = 200, 2000


class RankOutput:
    """Bounded in lines and in their length; a carriage return rewrites the last line, as on a terminal."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LINES)
        self._open = ""

    def write(self, text: str) -> None:
        *whole, self._open = (self._open + text).split("\n")
        self._lines.extend(_last_written(line) for line in whole)
        self._open = self._open[-LINE_CHARACTERS:]

    def tail(self, lines: int = LINES) -> list[str]:
        last = [_last_written(self._open)] if self._open else []
        return [*self._lines, *last][-lines:]


def _last_written(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2][:LINE_CHARACTERS]
