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


class OutputFeed:
    """Lines are numbered from the first that a rank wrote; a line that folds into another rank's is empty."""

    def __init__(self, history: RunHistory) -> None:
        self._history = history
        self._told: dict[int, dict[int, str]] = {}  # rank: number of a line: its HTML
        self._counts: dict[int, str] = {}
        self._version: tuple[int, int] | None = None

    def forget(self) -> None:
        """The page knows nothing."""
        self._told, self._counts, self._version = {}, {}, None

    def news(self) -> list[dict[str, Any]]:
        """Per rank: `first` (lines before it are no longer shown), `lines` that are new or changed, `count` in words."""
        history = self._history
        version = (history.output.version, history.world_size)
        if version == self._version:
            return []
        self._version = version
        folded = history.output.folded(LIVE_LINES)
        ranks = sorted({*range(min(history.world_size, MOST_ROWS)), *list(folded)[:MOST_ROWS]})
        return [news for rank in ranks if (news := self._of(rank, folded.get(rank, [])))]

    def _of(self, rank: int, lines: list[FoldedLine]) -> dict[str, Any] | None:
        output = self._history.output
        first = max(0, output.count(rank) - len(lines))
        now = {first + i: line_html(item) if item.first_rank == rank else "" for i, item in enumerate(lines)}
        count = output_summary(output, rank, lines) if lines else "nothing yet"
        old, self._told[rank] = self._told.get(rank, {}), now
        changed = [[number, html] for number, html in now.items() if old.get(number) != html]
        if not changed and self._counts.get(rank) == count:
            return None
        self._counts[rank] = count
        return {"rank": rank, "first": first, "lines": changed, "count": count}


def line_html(item: FoldedLine) -> str:
    """One line with its stream, if it is not standard output, and how many ranks wrote it too."""
    similar = f'<span class="gpl-same">{item.similar} similar</span>' if item.similar else ""
    stderr = ' <span class="gpl-err">stderr</span>' if item.line.stream == "stderr" else ""
    return (coloured(item.line.shown) or " ") + stderr + similar
