"""A run in plain text of at most 80 columns.

Runs in the kernel. Owns the text form that saved notebooks, logs and terminals show. Must not know streams.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.ui import number
from gpulayer_nb.ui.epoch_table import epoch_table
from gpulayer_nb.ui.markup import plain
from gpulayer_nb.ui.message_line import failure, sentence
from gpulayer_nb.ui.ranks_table import MOST_ROWS

COLUMNS = 80
MOST_EPOCHS = 12  # longer tables show their last rows


def header_lines(history: RunHistory) -> list[str]:
    """The header, broken between its parts where it is longer than a line."""
    lines: list[str] = []
    for part in history.header_line().split(" · "):
        if lines and len(lines[-1]) + 3 + len(part) <= COLUMNS:
            lines[-1] += f" · {part}"
        else:
            lines.append(part)
    return lines if history.run else []


def final_lines(history: RunHistory, *, timed: bool = True) -> list[str]:
    """What became of the run. Without `timed` nothing in it differs from one run to the next."""
    run = f"run {history.short_id} " if timed and history.run else ""
    done = done_words(history)
    took = f" in {number.clock(history.elapsed_seconds())}" if timed and history.is_over else ""
    if history.state == "failed":
        raised, where, rest = failure(history)
        lines = [f"{run}failed after {done}{took}", *raised.splitlines(), where, rest if rest != raised else ""]
    elif history.state in ("finished", "stopped"):
        lines = [f"{run}{history.state}: {done}{took}. {sentence(history)[0]}".rstrip()]
    else:
        lines = [f"{run}{history.state}: {done}"]
    return [part for line in lines if line for part in wrapped(plain(line))]


def done_words(history: RunHistory) -> str:
    """`10 epochs, 4 680 steps`; epochs that were begun and not ended do not count."""
    epochs, steps = len(history.epoch_ends), history.last_step
    words = [f"{number.count(epochs)} epoch{'' if epochs == 1 else 's'}"] if epochs else []
    return ", ".join([*words, f"{number.count(steps)} step{'' if steps == 1 else 's'}"])


def epoch_lines(history: RunHistory) -> list[str]:
    """The epoch means, right-aligned under their names; columns that do not fit are left out and named."""
    table = epoch_table(history)
    if not table.rows:
        return []
    heads = ["epoch", "step", *table.names]
    rows = table.rows[-MOST_EPOCHS:]
    cells = [[number.count(r.epoch + 1), number.count(r.global_step), *map(number.metric, r.values)] for r in rows]
    lines, left_out = aligned(heads, cells)
    if len(rows) < len(table.rows):
        lines.insert(1, f"  …  {len(table.rows) - len(rows)} earlier epochs")
    return lines + (wrapped("not shown: " + ", ".join(left_out)) if left_out else [])


def rank_lines(history: RunHistory) -> list[str]:
    """One line per rank; many ranks are counted instead."""
    rows = history.rank_rows()
    if not 0 < len(rows) <= MOST_ROWS:
        return [f"{len(rows)} ranks"] if rows else []
    heads = ["rank", "node", "local rank", "worker", "device", "step", "memory", "state"]
    cells = [
        [str(r.place.rank), str(r.place.node_rank), str(r.place.local_rank), r.worker, r.device,
         number.count(r.global_step), number.memory(r.memory_bytes), r.state]
        for r in rows
    ]  # fmt: skip
    return aligned(heads, cells, left=("worker", "device", "state"))[0]


def summary(history: RunHistory) -> str:
    """All of it, for viewers that show neither picture nor HTML."""
    parts = [header_lines(history), epoch_lines(history), rank_lines(history), final_lines(history)]
    return "\n\n".join("\n".join(part) for part in parts if part)


def aligned(heads: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Lines of a table of at most 80 columns, and the heads of columns that had no room."""
    widths = [max([len(head), *(len(row[i]) for row in rows)]) for i, head in enumerate(heads)]
    shown = len(heads)
    while shown > 1 and sum(widths[:shown]) + 2 * (shown - 1) > COLUMNS:
        shown -= 1
    lines = [
        "  ".join(c.ljust(w) if h in left else c.rjust(w) for c, w, h in zip(row[:shown], widths, heads, strict=False)).rstrip()
        for row in [heads, *rows]
    ]
    return lines, list(heads[shown:])


def wrapped(text: str) -> list[str]:
    """Lines of at most 80 columns; its own newlines are kept."""
    return [part for line in text.splitlines() for part in (textwrap.wrap(line, COLUMNS, break_on_hyphens=False) or [""])]
