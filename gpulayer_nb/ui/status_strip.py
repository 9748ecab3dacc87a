"""The figures of a run and its progress bar, as HTML.

Runs in the kernel. Owns which figures are shown in which state. Must not know widgets.
"""

from __future__ import annotations

import math

from gpulayer_nb.records.curve import SMOOTHING
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.ui import number
from gpulayer_nb.ui.markup import escape
from gpulayer_nb.ui.state import icon

STALLED_SECONDS = 10.0
MOST_CHOSEN = 3  # metrics beside the progress
MAX_SEGMENTS = 100  # beyond that the bar is one piece


def word(history: RunHistory) -> tuple[str, str]:
    """(icon, word) of the run's state; a run without a step for 10 s is called stalled."""
    if history.stalled_seconds() > STALLED_SECONDS:
        return "warning", "Stalled"
    return history.state, history.state.capitalize()


def position(history: RunHistory) -> tuple[int, int | None, int, int | None]:
    """Epoch, epochs, batch, batches: counted from 1, 0 where nothing has been done; None where unknown."""
    fit, progress = history.fit, history.progress
    epochs = fit.max_epochs if fit else None
    if progress is None or progress.phase not in ("train", "val"):
        return (fit.start_epoch + 1 if fit else 0), epochs, 0, (fit.batches_per_epoch if fit else None)
    batches = fit.batches_per_epoch if fit else None
    if progress.phase == "val":  # the epoch's training is done
        return progress.epoch + 1, epochs, batches or progress.batch_index + 1, batches
    return progress.epoch + 1, epochs, progress.batch_index + 1, progress.batches or batches


def status_strip(history: RunHistory) -> str:
    """State, epoch, step, samples/s, elapsed, ETA."""
    shape, name = word(history)
    cells = [_cell(f"run {history.short_id}", f"{icon(shape)} {name}", "w1", raw=True)]
    epoch, epochs, batch, batches = position(history)
    if history.state == "finished":
        done = len(history.epoch_ends) or epoch
        cells += [_cell("epochs", number.count(done), "w2"), _cell("steps", number.count(history.last_step))]
    else:
        by_batch = history.fit is not None and history.fit.accumulate_grad_batches > 1
        cells.append(_cell("epoch", _of(epoch, epochs), "w2", raw=True))
        cells.append(_cell("batch" if by_batch else "step", _of(batch, batches), raw=True))
    cells.append(_cell("samples/s, mean" if history.is_over else "samples/s", number.rate(history.samples_per_second)))
    cells.append(_cell("elapsed", number.clock(history.elapsed_seconds()), "w2"))
    if not history.is_over:
        cells.append(_cell("ETA", number.clock(history.eta_seconds()), "w2"))
    cells += [_cell(name, number.metric(value), "w2 opt") for name, value in _chosen(history)]
    return f'<div class="gpl-status"><dl>{"".join(cells)}</dl></div>'


def _chosen(history: RunHistory) -> list[tuple[str, float]]:
    """The metrics that the user wants to see here: the mean of the last steps, at the end the exact mean of the epoch."""
    found: list[tuple[str, float]] = []
    for name in history.chosen:
        final = history.metrics.get(name) if history.is_over else None
        if name in history.metric_names:
            last = history.column(name, -SMOOTHING)[1]
            mean = sum(last) / len(last) if last else math.nan
            found.append((name, mean if final is None else final))
        elif final is not None:
            found.append((name, final))
    return found[:MOST_CHOSEN]


def progress_bar(history: RunHistory) -> str:
    """One segment per epoch."""
    epoch, epochs, batch, batches = position(history)
    done, end = history.last_step, history.end_step
    if history.state == "finished":
        shares = [1.0] * (epochs or 1)
    elif epochs and epochs <= MAX_SEGMENTS:
        share = min(1.0, batch / batches) if batches else 0.0
        shares = [1.0] * max(0, epoch - 1) + [share] + [0.0] * max(0, epochs - epoch)
    else:
        shares = [min(1.0, done / end) if end else 0.0]
    parts = "".join(f'<i><i style="width:{100 * s:.1f}%"></i></i>' if s else "<i></i>" for s in shares[: epochs or 1])
    now = f' aria-valuenow="{done}" aria-valuemax="{end}"' if end else ""
    words = f"epoch {epoch} of {epochs or 'unknown'}, step {batch} of {batches or 'unknown'}"
    return (
        f'<div class="gpl-bar" role="progressbar" aria-label="training" aria-valuemin="0"{now} '
        f'aria-valuetext="{words}">{parts}</div>'
    )


def _cell(label: str, value: str, width: str = "", *, raw: bool = False) -> str:
    return f'<div class="{width}"><dt>{escape(label)}</dt><dd>{value if raw else escape(value)}</dd></div>'


def _of(done: int, total: int | None) -> str:
    """`3/10`, the total in a lighter weight."""
    first = number.count(done) if done else number.UNKNOWN
    return f'{first}<span class="of">/{number.count(total)}</span>' if total is not None else first
