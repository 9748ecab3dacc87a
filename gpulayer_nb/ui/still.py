"""What a saved notebook keeps of a run.

Runs in the kernel. Owns the bundle of plain HTML, picture and text: it must be readable without a kernel, without styles and
without scripts. Must not know widgets.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.ui import number
from gpulayer_nb.ui.epoch_table import epoch_table
from gpulayer_nb.ui.figure import MARGIN, WIDTH, ChartFigure
from gpulayer_nb.ui.markup import coloured, escape, with_code
from gpulayer_nb.ui.message_line import failure, sentence
from gpulayer_nb.ui.panel import Chart, ChartModel
from gpulayer_nb.ui.ranks_table import MOST_ROWS
from gpulayer_nb.ui.summary import MOST_EPOCHS, done_words, summary

SCALE = 2.0  # device pixels per CSS pixel: sharp on any screen
MOST_METRICS = 10  # columns of the table
FIRST_RANK_LINES, OTHER_RANK_LINES = 200, 20  # of the output


Bundle = tuple[dict[str, Any], dict[str, Any]]  # data and metadata of a display message


def static_bundle(history: RunHistory, *, chart: Chart | None = None, width: int = WIDTH) -> Bundle:
    """(data, metadata) of a display message: text/html, image/png (if anything was drawn) and text/plain.

    Args:
        chart: the chart of a view that has read the history already; otherwise it is read here.
    """
    chart = chart or ChartModel(history).chart()
    data: dict[str, Any] = {"text/plain": summary(history)}
    metadata: dict[str, Any] = {}
    picture = ""
    if chart.panels and history.last_step:
        drawing = ChartFigure(width, scale=SCALE, margin=MARGIN)
        drawing.update(chart)
        encoded = base64.b64encode(drawing.png()).decode("ascii")
        data["image/png"] = encoded
        metadata["image/png"] = {"width": drawing.width, "height": drawing.height}
        picture = f'<p><img width="{drawing.width}" alt="{escape(chart.alt())}" src="data:image/png;base64,{encoded}"></p>'
    parts = (_title(history), _shape(history), _outcome(history), picture, _epochs(history), _ranks(history), _output(history))
    data["text/html"] = f"<div>{''.join(parts)}</div>"
    return data, metadata


def _title(history: RunHistory) -> str:
    name = f"run {history.short_id}, {history.state}" if history.run else history.state
    facts = [done_words(history)] if history.last_step else []
    took = f"in {number.clock(history.elapsed_seconds())}"
    facts = [f"{facts[0]} {took}"] if facts else [took]
    if history.samples_per_second:
        facts.append(f"{number.rate(history.samples_per_second)} samples/s")
    return f"<p><b>{escape(name)}</b> · {escape(' · '.join(facts))}</p>"


def _shape(history: RunHistory) -> str:
    return f"<p>{escape(history.header_line())}</p>" if history.run else ""


def _outcome(history: RunHistory) -> str:
    if history.state != "failed":
        return f"<p>{with_code(sentence(history)[0])}</p>" if history.is_over else ""
    raised, where, rest = failure(history)
    lines = [f"<b>{escape(raised)}</b>" if raised else "", escape(where), with_code(rest) if rest != raised else ""]
    return f"<p>{'<br>'.join(line for line in lines if line)}</p>"


def _epochs(history: RunHistory) -> str:
    table = epoch_table(history)
    names = table.names[:MOST_METRICS]
    if not table.rows:
        return ""
    rows = [
        (number.count(row.epoch + 1), number.count(row.global_step), *map(number.metric, row.values[: len(names)]))
        for row in table.rows[-MOST_EPOCHS:]
    ]
    hidden = len(table.rows) - len(rows)
    note = f"<p>{hidden} earlier epochs are in <code>run.history</code>.</p>" if hidden else ""
    return _table(("epoch", "step", *names), rows) + note


def _ranks(history: RunHistory) -> str:
    rows = history.rank_rows()
    if not rows:
        return ""
    cells = [
        (
            str(r.place.rank), str(r.place.node_rank), str(r.place.local_rank), r.worker, r.device, number.count(r.global_step),
            number.memory(r.memory_bytes), r.state + (f": {r.detail}" if r.detail and r.state in ("failed", "dead") else ""),
        )
        for r in rows[: 4 * MOST_ROWS]
    ]  # fmt: skip
    table = _table(("rank", "node", "local rank", "worker", "device", "step", "memory", "state"), cells)
    return f"<details><summary>{len(rows)} rank{'' if len(rows) == 1 else 's'}</summary>{table}</details>"


def _output(history: RunHistory) -> str:
    """Rank 0's last lines, then what other ranks wrote and it did not."""
    lines = []
    for rank, folded in list(history.output.folded(FIRST_RANK_LINES).items())[:MOST_ROWS]:
        own = [item for item in folded if item.first_rank == rank][-(FIRST_RANK_LINES if rank == 0 else OTHER_RANK_LINES) :]
        for item in own:
            similar = f"  [{item.similar} similar]" if item.similar else ""
            lines.append(f"[rank {rank}] {coloured(item.line.shown)}{similar}")
    if not lines:
        return ""
    count = f"{len(lines)} line{'' if len(lines) == 1 else 's'}"
    return f"<details><summary>output, {count}</summary><pre>{chr(10).join(lines)}</pre></details>"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
