"""The ranks of a run as a table, or as a grid where there are many.

Runs in the kernel. Owns columns and the summary. Must not know widgets.
"""

from __future__ import annotations

from collections import Counter

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.rank_table import RankRow
from gpulayer_nb.ui import number
from gpulayer_nb.ui.markup import escape
from gpulayer_nb.ui.state import icon

MOST_ROWS = 16  # more ranks are shown as a grid
_COLUMNS = (  # head, class, width in units of 4 px; 0: what is left
    ("rank", "num", 10), ("node", "num", 11), ("local rank", "num opt", 17), ("worker", "", 20), ("device", "", 15),
    ("step", "num", 16), ("samples/s", "num", 18), ("memory", "num", 20), ("seen", "num opt", 15), ("state", "st", 0),
)  # fmt: skip
_HEAD = "".join(
    f'<th class="{kind}" scope="col"{f" style={chr(34)}width:calc(var(--gpl-u)*{width}){chr(34)}" if width else ""}>{head}</th>'
    for head, kind, width in _COLUMNS
)


def ranks_summary(rows: tuple[RankRow, ...]) -> str:
    """`4 running · slowest 1 300, fastest 1 320 samples/s`."""
    states = Counter(row.state for row in rows)
    words = ", ".join(f"{n} {state}" for state, n in states.items())
    rates = [row.samples_per_second for row in rows if row.samples_per_second]
    if len(rates) > 1:
        words += f" · slowest {number.rate(min(rates))}, fastest {number.rate(max(rates))} samples/s"
    return words


def ranks_table(history: RunHistory) -> str:
    """One row per rank; from 17 ranks on one cell per rank and one line per node."""
    rows = history.rank_rows()
    if len(rows) > MOST_ROWS:
        return _grid(rows)
    body = "".join(_row(row) for row in rows)
    return f'<table class="gpl-ranks"><thead><tr>{_HEAD}</tr></thead><tbody>{body}</tbody></table>'


def _row(row: RankRow) -> str:
    marked = row.state in ("failed", "dead", "silent") or row.is_straggler
    mark = ": " if row.state in ("failed", "dead") else ", "
    state = row.state + (mark + row.detail if row.detail else "")
    cells = (
        f'<td class="rank num">{row.place.rank}</td><td class="num">{row.place.node_rank}</td>'
        f'<td class="num opt">{row.place.local_rank}</td><td>{escape(row.worker)}</td><td>{escape(row.device)}</td>'
        f'<td class="num">{number.count(row.global_step) if row.global_step else number.UNKNOWN}</td>'
        f'<td class="num">{number.rate(row.samples_per_second)}</td><td class="num">{number.memory(row.memory_bytes)}</td>'
        f'<td class="num opt">{_seen(row.age_seconds)}</td>'
        f'<td class="st">{icon(row.state)}{escape(state)}</td>'
    )
    late = " straggler" if row.is_straggler else ""
    return f'<tr class="{row.state}{" marked" if marked else ""}{late}">{cells}</tr>'


def _seen(age_seconds: float | None) -> str:
    """When the rank was last heard of; it reports once a second."""
    if age_seconds is None:
        return number.UNKNOWN
    return "now" if age_seconds < 2 else f"{age_seconds:.0f} s ago"


def _grid(rows: tuple[RankRow, ...]) -> str:
    """Shade: the rank's samples/s between the slowest and the fastest, in five steps."""
    rates = [row.samples_per_second for row in rows if row.samples_per_second]
    low, high = (min(rates), max(rates)) if rates else (0.0, 0.0)
    lines: dict[int, list[str]] = {}
    for row in rows:
        rate = row.samples_per_second
        shade = min(4, int(5 * (rate - low) / (high - low))) if rate and high > low else 2
        odd = row.state != "running" or row.is_straggler
        said = f"{row.label}, {row.state}{f', {row.detail}' if row.detail else ''}, {number.rate(rate)} samples/s"
        lines.setdefault(row.place.node_rank, []).append(
            f'<span class="cell {"odd" if odd else f"q{shade}"}" title="{escape(said)}">'
            f"{icon('warning' if row.is_straggler else row.state) if odd else ''}{row.place.rank}</span>"
        )
    body = "".join(f'<div class="row"><b>node {node}</b>{"".join(cells)}</div>' for node, cells in lines.items())
    return f'<div class="gpl-heat" role="img" aria-label="{escape(ranks_summary(rows))}">{body}</div>'
