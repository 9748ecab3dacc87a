"""The sentence below the progress bar: what just happened, what is wrong, what was kept.

Runs in the kernel. Owns the words. Must not know widgets.
"""

from __future__ import annotations

import math
import re

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.ui import number
from gpulayer_nb.ui.markup import coloured, escape, plain, with_code
from gpulayer_nb.ui.panel import family
from gpulayer_nb.ui.state import icon
from gpulayer_nb.ui.status_strip import STALLED_SECONDS, position

_FALLS = re.compile(r"loss|err|perplexity|ppl|mse|mae|rmse|nll", re.IGNORECASE)  # metrics of which less is better


def message_line(history: RunHistory) -> str:
    """One sentence in HTML, or the box with the first cause of a failure."""
    if history.state == "failed":
        return _cause(history)
    text, level = sentence(history)
    if level == "warning":
        return f'<p class="gpl-note alert" role="alert">{icon("warning")}<span>{with_code(text)}</span></p>'
    return f'<p class="gpl-note{" muted" if level == "quiet" else ""}" role="status"><span>{with_code(text)}</span></p>'


def sentence(history: RunHistory) -> tuple[str, str]:
    """(words, "quiet", "note" or "warning"); the latest warning goes before all else."""
    stalled = history.stalled_seconds()
    if stalled > STALLED_SECONDS:
        return f"No step for {number.duration(stalled)}. Next: `%gpulayer stuck`, or the notebook's stop button", "warning"
    warnings = [notice for notice in history.notices if notice.level == "warning"]
    if history.non_finite and not history.is_over:
        return non_finite(history), "warning"
    if warnings and not history.is_over:
        rank = warnings[-1].rank
        return (f"{history.rank_label(rank)}: " if rank is not None else "") + plain(warnings[-1].text), "warning"
    if history.state == "finished":
        over = "The script has ended." if history.run is not None and history.run.mode == "launch" else "All steps are done."
        return " ".join(part for part in (best(history, done=True), history.message) if part) or over, "note"
    if history.state == "stopped":
        message = plain(history.message) or f"stopped after step {number.count(history.last_step)}."
        return f"{message[:1].upper()}{message[1:]} {best(history, done=True)}".strip(), "note"
    if history.state == "stopping":
        return "All ranks stop after the step in hand.", "note"
    progress = history.progress
    if progress is not None and progress.phase != "train" and history.state == "running":
        of = f" of {number.count(progress.batches)}" if progress.batches else ""
        doing = {"val": "validation", "test": "test", "predict": "prediction"}.get(progress.phase, progress.phase)
        return f"{doing.capitalize()}: batch {number.count(progress.batch_index + 1)}{of}", "quiet"
    if history.state == "starting":
        return f"The ranks are starting: {plain(history.starting)}." if history.starting else "The ranks are starting.", "quiet"
    if found := best(history, done=False):
        return found, "quiet"
    if history.notices and not history.is_over:
        return plain(history.notices[-1].text), "quiet"
    return "Every step's metrics are means over all ranks", "quiet"


def best(history: RunHistory, *, done: bool) -> str:
    """The best validation value so far, by the first validation metric that was logged (an accuracy, if there is one)."""
    seen: dict[str, list[tuple[int, float]]] = {}
    for row in history.epochs():
        if row.split == "val":
            for name, value in row.values.items():
                if not math.isnan(value):
                    seen.setdefault(name, []).append((row.epoch, value))
    if not seen:
        return ""
    name = next((n for n in seen if not _FALLS.search(n)), next(iter(seen)))
    pick = min if _FALLS.search(name) else max
    epoch, value = pick(seen[name], key=lambda found: found[1])
    words = f"val {family(name)} {number.metric(value)} after epoch {epoch + 1}"
    return f"Best {words}." if done else f"Best so far: {words}"


def non_finite(history: RunHistory) -> str:
    """`loss was NaN for 41 steps (655 to 695), first on rank 1.`"""
    name = history.non_finite[-1].name
    marks = [mark for mark in history.non_finite if mark.name == name]
    steps = sum(mark.steps for mark in marks)
    first, last = number.count(marks[0].first_step), number.count(marks[-1].last_step)
    where = f"in step {first}" if steps == 1 else f"for {number.count(steps)} steps ({first} to {last})"
    on = f"on rank {marks[0].rank}" if steps == 1 else f"first on rank {marks[0].rank}"
    return f"{plain(name)} was NaN or infinite {where}, {on}."


def failure(history: RunHistory) -> tuple[str, str, str]:
    """(what was raised, where, what to do) of the first cause, as plain text; "" where there is none."""
    cause = history.cause
    if cause is None:
        return "", "", plain(history.message)
    _, epochs, _, batches = position(history)
    where = [history.rank_label(cause.rank)]
    if cause.epoch is not None:
        where.append(f"epoch {cause.epoch + 1}" + (f"/{epochs}" if epochs else ""))
    if cause.batch_index is not None:
        where.append(f"step {number.count(cause.batch_index + 1)}" + (f"/{number.count(batches)}" if batches else ""))
    if cause.cell_line is not None:
        cell = f"cell {cause.cell}" if cause.cell is not None else "the cell's"
        where.append(f"in {cell} line {cause.cell_line}")
    raised = plain(f"{cause.error_type}: {cause.message}" if cause.message else cause.error_type).strip()
    message = plain(history.message)
    if raised in message:  # then it names the place too
        return raised, "", message.replace(raised, "", 1).lstrip(" —\n")
    return raised, ", ".join(where), message


def _cause(history: RunHistory) -> str:
    raised, where, rest = failure(history)
    parts = []
    if raised:
        parts.append(f'<p class="what">{icon("failed")}<span>{escape(raised)}</span></p>')
        if where:
            parts.append(f'<p class="where">{escape(where)}</p>')
        if history.last_step and where:
            rest = f"Last good step {number.count(history.last_step)}. {rest}".strip()
    if rest and not (raised and rest == raised):
        parts.append(f'<p class="rest">{with_code(rest)}</p>')
    cause = history.cause
    if cause is not None and cause.traceback:
        parts.append(f'<details class="gpl-log"><summary>traceback</summary><pre>{coloured(cause.traceback)}</pre></details>')
    return f'<div class="gpl-cause" role="alert">{"".join(parts) or "<p>The run failed.</p>"}</div>'
