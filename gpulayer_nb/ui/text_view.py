"""A run in lines of text: terminals, logs, notebooks without widgets.

Runs in the kernel or in a plain process. Owns what is written and when. Must not know widgets.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import TextIO

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.output_log import OutputReader, labelled
from gpulayer_nb.ui import number
from gpulayer_nb.ui.epoch_table import EpochRow, epoch_table
from gpulayer_nb.ui.markup import plain
from gpulayer_nb.ui.status_strip import position
from gpulayer_nb.ui.summary import final_lines, header_lines, wrapped

UPDATE_SECONDS = 0.2
BAR = 10  # characters of the progress bar


class TextView:
    """Header, one line per epoch, the ranks' output, one final line.

    Args:
        live: the stream is a terminal: output comes as it is written and the last line is rewritten in place. Otherwise the text
            depends on the run alone: no times, and the ranks' output, in rank order, after the epochs.
    """

    def __init__(self, history: RunHistory, stream: TextIO, *, live: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._history, self._stream, self._live, self._clock = history, stream, live, clock
        self._reader = OutputReader(history.output)
        self._headed = self._finished = False
        self._said = 0  # epochs
        self._progress = ""  # the line that is rewritten
        self._updated = -1e9

    def show(self) -> None:
        """Write what is known."""
        self.refresh()

    def refresh(self) -> None:
        """Write what is new, unless that was done a moment ago."""
        now = self._clock()
        if self._finished or now - self._updated < UPDATE_SECONDS:
            return
        self._updated = now
        lines = self._news()
        progress = self._progress_line() if self._live and self._history.fit is not None else ""
        if lines or progress != self._progress:
            self._write(lines, progress)

    def finish(self) -> None:
        """Write the rest. May be called twice."""
        if self._finished:
            return
        self._finished = True
        lines = self._news(last=True)
        if not self._live:
            lines += labelled(self._reader.take(everything=True), fold=True)
        lines += final_lines(self._history, timed=self._live)
        self._write(lines, "")

    def dismiss(self) -> None:
        """Nothing was run: wipe the progress line and say nothing."""
        self._finished = True
        if self._progress:
            self._write([], "")

    def _news(self, *, last: bool = False) -> list[str]:
        history = self._history
        lines: list[str] = []
        if not self._headed and (history.fit is not None or last):
            self._headed = True
            lines += header_lines(history)
        if self._live:
            lines += labelled(self._reader.take(everything=last), fold=True)
        return lines + self._epochs(last or history.is_over)

    def _epochs(self, over: bool) -> list[str]:
        """Epochs that are complete: validated, or followed by another."""
        table = epoch_table(self._history)
        lines = []
        for at in range(self._said, len(table.rows)):
            if not (over or at + 1 < len(table.rows) or self._is_complete(table.rows[at].epoch)):
                break
            lines += self._epoch_line(table.names, table.rows[at])
            self._said = at + 1
        return lines

    def _is_complete(self, epoch: int) -> bool:
        history = self._history
        splits = {row.split for row in history.epochs() if row.epoch == epoch}
        validated = "val" in splits or not (history.fit and history.fit.val_batches)
        return ("train" in splits and validated) or (history.progress is not None and history.progress.epoch > epoch)

    def _epoch_line(self, names: tuple[str, ...], row: EpochRow) -> list[str]:
        fit = self._history.fit
        of = f"/{number.count(fit.max_epochs)}" if fit and fit.max_epochs else ""
        values = [f"{name} {number.metric(value)}" for name, value in zip(names, row.values, strict=True) if value is not None]
        return wrapped("  ".join([f"epoch {number.count(row.epoch + 1)}{of}", *values]))

    def _progress_line(self) -> str:
        history = self._history
        epoch, epochs, batch, batches = position(history)
        end = history.end_step
        parts = [f"epoch {epoch}/{epochs}" if epochs else f"epoch {epoch}"]
        if end:
            full = min(BAR, BAR * history.last_step // end)
            parts.append("[" + "#" * full + "-" * (BAR - full) + "]")
        parts.append(f"{number.count(batch)}/{number.count(batches)}" if batches else number.count(batch))
        parts.append(f"{number.rate(history.samples_per_second)}/s")
        names = [name for name in history.chosen if name in history.metric_names] or history.metric_names
        for name in names[:3]:
            values = history.column(name, -1)[1]
            parts.append(f"{name} {number.metric(values[-1])}" if values else name)
        parts += [number.clock(history.elapsed_seconds()), f"ETA {number.clock(history.eta_seconds())}"]
        width = shutil.get_terminal_size().columns - 1  # a full line would wrap, and could not be rewritten
        while len("  ".join(parts)) > width and len(parts) > 3:
            del parts[-3]
        return "  ".join(parts)[:width]

    def _write(self, lines: list[str], progress: str) -> None:
        wipe = "\r" + " " * len(self._progress) + "\r" if self._progress else ""
        text = "".join((plain(line) if not self._live else line) + "\n" for line in lines)
        self._stream.write(wipe + text + progress)
        self._stream.flush()
        self._progress = progress
