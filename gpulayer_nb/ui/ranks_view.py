"""The output of a `%%ranks` cell.

Runs in the kernel: `show`, `refresh` and `finish` are called by the cell's own thread. Owns how the ranks' output is shown while
the cell runs and what the saved cell keeps. Must not know how output arrives.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.output_log import OutputLog, OutputReader, labelled
from gpulayer_nb.ui.choose import in_kernel
from gpulayer_nb.ui.markup import coloured

FIRST_SECONDS = 0.5  # a cell that ends sooner shows its result at once and nothing before
UPDATE_SECONDS = 0.2
LIVE_CHARACTERS = 100_000  # of the live text; the final text has all


class RanksView:
    """Lines in rank order, each with its rank; live after half a second, one plain stream at the end.

    Args:
        source: the run's history, or its output alone.
        rich: a notebook shows it; None means: find out.
        fold: equal lines of later ranks are shown once.
        stream: where a terminal's lines and the final text go; None means standard output at that moment.
    """

    def __init__(
        self,
        source: RunHistory | OutputLog,
        *,
        rich: bool | None = None,
        fold: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._history = source if isinstance(source, RunHistory) else None
        self._output = source.output if isinstance(source, RunHistory) else source
        self._rich = in_kernel() if rich is None else rich
        self._stream, self._clock, self._fold = stream, clock, fold
        self._reader = OutputReader(self._output)
        self._display: str | None = None  # its display_id
        self._shown: object = None  # version of what is on screen
        self._began = self._updated = clock()
        self._finished = False
        self._notices = 0  # written so far

    def show(self) -> None:
        """Nothing yet: most cells are over before anyone could read."""
        self._began = self._updated = self._clock()

    def refresh(self) -> None:
        """Show what is new, unless that was done a moment ago."""
        now = self._clock()
        if self._finished or now - self._updated < UPDATE_SECONDS:
            return
        if not self._rich:
            self._updated = now
            self._write(self._new_notices() + labelled(self._reader.take(), fold=self._fold))
        elif now - self._began >= FIRST_SECONDS and self._version() != self._shown:
            self._updated, self._shown = now, self._version()
            self._publish()

    def finish(self, values: Mapping[int, str] | None = None) -> None:
        """Leave the final text. May be called twice.

        Args:
            values: the last expression's repr of each rank that has one.
        """
        if self._finished:
            return
        self._finished = True
        lines = self._new_notices()
        if not self._rich:
            self._write(lines + labelled(self._reader.take(everything=True), fold=self._fold) + value_lines(values or {}))
            return
        text = "".join(line + "\n" for line in lines) + self._text()
        text += "".join(line + "\n" for line in value_lines(values or {}))
        if self._display is not None:
            from IPython.display import clear_output

            # Waiting for the text avoids a blink; without text there is nothing to wait for.
            clear_output(wait=bool(text))  # type: ignore[no-untyped-call]  # IPython has no annotations
        if text:
            self._write_text(text)

    def dismiss(self) -> None:
        """Nothing was run: the error that follows says why."""
        self._finished = True

    def _text(self) -> str:
        """All that is kept, in rank order."""
        if not self._fold:
            return self._output.text()
        kept = {rank: self._output.lines(rank) for rank in self._output.ranks}
        return "".join(line + "\n" for line in labelled(kept, fold=True))

    def _version(self) -> tuple[int, str]:
        """Changes when something new can be shown."""
        return self._output.version, self._starting()

    def _starting(self) -> str:
        """What a start is waiting for; nothing once the ranks are at work."""
        history = self._history
        return (
            f"The ranks are starting: {history.starting}."
            if history is not None and history.starting and history.run is None
            else ""
        )

    def _new_notices(self) -> list[str]:
        notices = self._history.notices if self._history is not None else ()
        new, self._notices = notices[self._notices :], len(notices)
        return [(f"[rank {n.rank}] " if n.rank is not None else "") + n.text for n in new]

    def _publish(self) -> None:
        from IPython.display import display

        text = self._text()
        notices = [n.text for n in self._history.notices] if self._history is not None else []
        text = "".join(line + "\n" for line in notices) + text
        if len(text) > LIVE_CHARACTERS:
            text = "…" + text[-LIVE_CHARACTERS:]
        text = text or self._starting()
        if not text:
            return
        data = {"text/plain": text.rstrip("\n"), "text/html": f"<pre>{coloured(text)}</pre>"}
        if self._display is None:
            handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]  # IPython has no annotations
            self._display = handle.display_id
        else:
            display(data, raw=True, display_id=self._display, update=True)  # type: ignore[no-untyped-call]  # IPython has no annotations

    def _write(self, lines: list[str]) -> None:
        if lines:
            self._write_text("".join(line + "\n" for line in lines))

    def _write_text(self, text: str) -> None:
        stream = self._stream if self._stream is not None else sys.stdout
        stream.write(text)
        stream.flush()


def value_lines(values: Mapping[int, str]) -> list[str]:
    """`[rank 0] Out: 6`; further lines of a value stand under its first."""
    lines = []
    for rank in sorted(values):
        lead = f"[rank {rank}] "
        first, *more = values[rank].splitlines() or [""]
        lines.append(f"{lead}Out: {first}")
        lines += [f"{lead}     {line}" for line in more]
    return lines
