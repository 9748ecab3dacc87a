"""What the ranks wrote and the page has not been told yet.

Runs in the kernel. Owns the difference between two looks at an output log. Must not know widgets.
"""

from __future__ import annotations

from typing import Any

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.output_log import FoldedLine
from gpulayer_nb.ui.markup import coloured
from gpulayer_nb.ui.output_panel import LIVE_LINES, output_summary
from gpulayer_nb.ui.ranks_table import MOST_ROWS

MOST_CHARACTERS = 1_000  # of a line in the page
_LINE_BYTES, _RANK_BYTES = 12, 90  # of a line, and of a rank, beside the text


class OutputFeed:
    """Lines are numbered from the first that a rank wrote; a line that folds into another rank's is empty."""

    def __init__(self, history: RunHistory) -> None:
        self._history = history
        self._told: dict[int, dict[int, str]] = {}  # rank: number of a line: its HTML
        self._counts: dict[int, str] = {}
        self._version: tuple[int, int] | None = None
        self._withheld = False  # lines that found no room
        self._room: int | None = None  # bytes left in this message; None: no limit

    def forget(self) -> None:
        """The page knows nothing."""
        self._told, self._counts, self._version, self._withheld = {}, {}, None, False

    def news(self, most_bytes: int | None = None) -> list[dict[str, Any]]:
        """Per rank: `first` (lines before it are no longer shown), `lines` that are new or changed, `count` in words.

        Args:
            most_bytes: about so much at once, the newest lines of each rank first; the others come with the next calls, unless
                newer ones have pushed them out by then.
        """
        history = self._history
        version = (history.output.version, history.world_size)
        if version == self._version and not self._withheld:
            return []
        self._version, self._withheld, self._room = version, False, most_bytes
        folded = history.output.folded(LIVE_LINES)
        ranks = sorted({*range(min(history.world_size, MOST_ROWS)), *list(folded)[:MOST_ROWS]})
        if self._room is not None:
            self._room -= _RANK_BYTES * len(ranks)
        return [news for rank in ranks if (news := self._of(rank, folded.get(rank, [])))]

    def _of(self, rank: int, lines: list[FoldedLine]) -> dict[str, Any] | None:
        output = self._history.output
        first = max(0, output.count(rank) - len(lines))
        now = {first + i: line_html(item) if item.first_rank == rank else "" for i, item in enumerate(lines)}
        count = output_summary(output, rank, lines) if lines else "nothing yet"
        old = self._told.get(rank, {})
        changed = self._as_room_allows([[number, html] for number, html in now.items() if old.get(number) != html])
        self._told[rank] = {number: html for number, html in old.items() if number in now} | dict(changed)
        if not changed and self._counts.get(rank) == count:
            return None
        self._counts[rank] = count
        return {"rank": rank, "first": first, "lines": changed, "count": count}

    def _as_room_allows(self, lines: list[list[Any]]) -> list[list[Any]]:
        """The newest of these lines, in order, as many as there is room for."""
        if self._room is None:
            return lines
        taken = len(lines)
        while taken and self._room > 0:
            taken -= 1
            self._room -= len(lines[taken][1].encode()) + _LINE_BYTES
        self._withheld = self._withheld or taken > 0
        return lines[taken:]


def line_html(item: FoldedLine) -> str:
    """One line with its stream, if it is not standard output, and how many ranks wrote it too."""
    similar = f'<span class="gpl-same">{item.similar} similar</span>' if item.similar else ""
    stderr = ' <span class="gpl-err">stderr</span>' if item.line.stream == "stderr" else ""
    shown = item.line.shown
    cut = f"{shown[:MOST_CHARACTERS]} … (the whole line is in run.logs)" if len(shown) > MOST_CHARACTERS else shown
    return (coloured(cut) or " ") + stderr + similar
