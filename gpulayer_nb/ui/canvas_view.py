"""The live view of a run, drawn by the browser itself.

Runs in the kernel: `show`, `refresh` and `finish` are called by the cell's own thread; a page's hello may come on another.
Owns what is sent to the page and how often. Must not know where records come from.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from IPython.display import DisplayHandle, clear_output, display

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.ui.canvas_widget import CanvasWidget
from gpulayer_nb.ui.comm_pump import CommPump
from gpulayer_nb.ui.curve_feed import CurveFeed
from gpulayer_nb.ui.kernel_id import kernel_id
from gpulayer_nb.ui.markup import escape
from gpulayer_nb.ui.message_line import message_line
from gpulayer_nb.ui.output_feed import OutputFeed
from gpulayer_nb.ui.panel import Chart, ChartModel
from gpulayer_nb.ui.ranks_table import ranks_summary, ranks_table
from gpulayer_nb.ui.status_strip import position, progress_bar, status_strip

UPDATE_SECONDS = 0.2  # at most 5 updates a second
SLOW_SECONDS = 1.0  # ranks report once a second, and the clock goes on when nothing else does
OUTPUT_SECONDS = 0.4
UPDATE_BYTES = 9_000  # of one update; what the ranks wrote takes what the rest has left
MOST_ENDS = 500  # epoch ends in the whole: more than a panel has room to mark


class CanvasView:
    """One widget in the current cell, replaced by a still when the run is over.

    Args:
        stops: interrupting this kernel stops the run, so there is a button for it.
        clock: seconds, for the limits on updates.
    """

    def __init__(self, history: RunHistory, *, stops: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._history, self._clock = history, clock
        self._chart, self._curves, self._output = ChartModel(history), CurveFeed(history), OutputFeed(history)
        self._widget = CanvasWidget(kernel_id=kernel_id(), stops=stops)
        self._widget.on_msg(self._heard)
        self._pump = CommPump()
        self._handle: DisplayHandle | None = None
        self._lock = threading.RLock()
        self._told: dict[str, Any] = {}  # part: what the page was last told
        self._number = 0  # of the last message
        self._updated = self._slow = self._printed = self._began = -1e9
        self._next_whole = 0.5  # seconds after the start
        self._seen: tuple[int, int] | None = None  # versions of history and output that were sent
        self._pages = 0  # that said hello
        self._awake: set[str] = set()  # pages that are looked at
        self._ends_told = 0
        self._ranks_due = False

    def show(self) -> None:
        """Put the view below the current cell."""
        self._began = self._clock()
        model = {"version_major": 2, "version_minor": 1, "model_id": self._widget.model_id}
        bundle = {
            "application/vnd.jupyter.widget-view+json": model,
            "text/plain": self._history.header_line() or "run view",
        }
        self._handle = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]  # IPython has no annotations
        self._tell(whole=True)

    def refresh(self) -> None:
        """Bring the page up to date, unless that was done a moment ago. Cheap to call often."""
        self._pump.turn()
        now = self._clock()
        since = now - self._updated
        if since < UPDATE_SECONDS or self._handle is None:
            return
        if self._history.progress is not None:
            _drawing()  # the ranks work by themselves now; at the end nobody waits for it
        if self._pages and not self._awake:
            return  # nobody looks; who looks again says hello
        if self._seen != (self._history.version, self._history.output.version) or since >= SLOW_SECONDS:
            # A page that is not ready yet hears nothing, and it may be unable to say hello: told all at 0.5 s, 1 s, 2 s, 4 s …
            late = now - self._began >= self._next_whole
            if late:
                self._next_whole *= 2
            self._tell(whole=late and not self._pages)

    def finish(self) -> None:
        """Put the still in the view's place and drop the widget. May be called twice."""
        self._pump.close()  # first: what it holds must run, whatever happens here
        with self._lock:
            handle, self._handle = self._handle, None
            if handle is not None:
                self._tell(whole=bool(self._pages and not self._awake), last=True)
                data, metadata = _drawing().static_bundle(self._history, chart=self._chart.chart())
                handle.update(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]  # IPython has no annotations
            if self._pages > 1:
                return  # a page that was loaded again does not hear of the still: it goes on showing the widget
            self._widget.wipe()  # front ends keep a closed widget's last state in the notebook: make it small
            self._widget.close()

    def dismiss(self) -> None:
        """Take the view away without a trace: nothing was run, and the error that follows is all the cell shows."""
        if self._handle is not None:
            self._handle = None
            clear_output(wait=True)  # type: ignore[no-untyped-call]  # IPython has no annotations
        self.finish()

    def _heard(self, _: Any, content: dict[str, Any], __: list[bytes]) -> None:
        kind, page = content.get("kind"), str(content.get("page", ""))
        if kind == "sleep":
            self._awake.discard(page)
        elif kind == "hello" and self._handle is not None:
            self._awake.add(page)
            self._pages += bool(content.get("first"))
            self._tell(whole=True)

    def _tell(self, *, whole: bool, last: bool = False) -> None:
        with self._lock:
            now = self._clock()
            self._updated = now
            self._seen = (self._history.version, self._history.output.version)
            if whole:
                self._told.clear()
                self._output.forget()
                self._ends_told = 0
            self._number += 1
            message: dict[str, Any] = {"kind": "whole" if whole else "news", "number": self._number}
            chart = self._chart.outline()
            parts = {
                "strip": status_strip(self._history),
                "note": message_line(self._history),
                "chart": chart_facts(self._history, chart),
            }
            if whole or last or self._ranks_due:
                self._ranks_due = False
                parts |= self._ranks_parts()  # in an update of their own: they may be long
            elif now - self._slow >= SLOW_SECONDS:
                self._ranks_due = True
            if whole or last or self._ranks_due:
                self._slow = now
                parts |= self._slow_parts()
                self._pump.say_busy()
            message |= {part: value for part, value in parts.items() if self._told.get(part) != value}
            self._told |= parts
            if ends := self._ends(whole):
                message["ends"] = ends
            room = UPDATE_BYTES - len(json.dumps(message))
            entries, buffers = self._curves.whole() if whole else self._curves.news(room)
            if entries:
                message["curves"] = entries
            if whole or last or now - self._printed >= OUTPUT_SECONDS:
                self._printed = now
                room = UPDATE_BYTES - len(json.dumps(message)) - sum(map(len, buffers))
                if written := self._output.news(None if whole else max(0, room)):
                    message["output"] = written
            if whole or len(message) > 2:
                self._widget.send(message, buffers)
            else:
                self._number -= 1

    def _ends(self, whole: bool) -> list[list[int]]:
        """[last step, epoch] of the epochs that have ended since it was last told."""
        ends = sorted([step, epoch + 1] for epoch, step in self._history.epoch_ends.items())
        news, self._ends_told = ends[self._ends_told :], len(ends)
        return news[:: -(-len(news) // MOST_ENDS)] if whole and news else news

    def _slow_parts(self) -> dict[str, Any]:
        """What need not change with every step."""
        return {
            "head": escape(self._history.header_line()),
            "name": f"run {self._history.short_id}" if self._history.run else "run",
            "bar": progress_bar(self._history),
        }

    def _ranks_parts(self) -> dict[str, Any]:
        return {"ranks": ranks_table(self._history), "ranks_count": escape(ranks_summary(self._history.rank_rows()))}


def _drawing() -> ModuleType:
    """What makes the still; it brings matplotlib, which takes a third of a second."""
    from gpulayer_nb.ui import still

    return still


def chart_facts(history: RunHistory, chart: Chart) -> dict[str, Any]:
    """What the page needs besides the points."""
    _, epochs, _, _ = position(history)
    to_come = sorted([step, epoch + 1] for epoch, step in chart.epoch_ends.items() if epoch not in history.epoch_ends)
    return {
        "panels": [
            {"family": p.name, "hue": p.hue, "note": p.note, "gaps": [list(gap) for gap in p.gaps]} for p in chart.panels
        ],
        "left": chart.left, "right": chart.right, "state": chart.state, "last": chart.last_step, "epochs": epochs,
        "next": to_come[:1],
        "world": history.world_size,
    }  # fmt: skip
