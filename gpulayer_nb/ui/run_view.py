"""The live view of a run in a notebook's output.

Runs in the kernel: `show`, `refresh` and `finish` are called by the cell's own thread. Owns the widgets and how often they are
sent. Must not know where records come from.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from IPython.display import DisplayHandle, clear_output, display
from ipywidgets import HTML, Box, HBox, Image, Layout, VBox, Widget

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.ui.figure import WIDTH, ChartFigure
from gpulayer_nb.ui.markup import escape
from gpulayer_nb.ui.message_line import message_line
from gpulayer_nb.ui.output_panel import LIVE_LINES, output_lines, output_summary
from gpulayer_nb.ui.panel import ChartModel
from gpulayer_nb.ui.ranks_table import MOST_ROWS, ranks_summary, ranks_table
from gpulayer_nb.ui.status_strip import progress_bar, status_strip
from gpulayer_nb.ui.still import static_bundle

UPDATE_SECONDS = 0.2  # at most 5 updates a second
FRAME_SECONDS = 0.5  # at most 2 pictures a second
FRAME_SHARE = 0.1  # and at most this share of the time is spent on drawing them
TICK_SECONDS = 1.0  # the clock goes on when nothing else does
LIVE_SCALE = 1.5  # device pixels per CSS pixel of a live frame


class RunView:
    """One widget in the current cell, replaced by a still when the run is over.

    Args:
        width: of the curves at most, in CSS pixels; they shrink with the cell.
        clock: seconds, for the limits on updates.
    """

    def __init__(self, history: RunHistory, *, width: int = WIDTH, clock: Callable[[], float] = time.monotonic) -> None:
        self._history = history
        self._clock = clock
        self._chart = ChartModel(history)
        self._drawing = ChartFigure(width, scale=LIVE_SCALE)
        self._handle: DisplayHandle | None = None
        self._layout = Layout()  # shared, as the style is: one of its own for each widget would be two more messages
        self._html_style: Widget | None = None
        self._made: list[Widget] = []
        self._style, self._head, self._strip, self._note, self._alt = (self._html() for _ in range(5))
        self._style.value = f"<style>{files(__package__).joinpath('run_view.css').read_text(encoding='utf-8')}</style>"
        self._image = self._keep(Image(format="png", layout=Layout(width="100%", max_width=f"{width}px")))
        self._image.add_class("gpl-img")
        self._ranks_count, self._ranks = self._html("gpl-count"), self._html("gpl-body")
        self._logs = self._keep(VBox([], layout=self._layout))
        self._logs.add_class("gpl-body")
        self._texts: dict[int, tuple[HTML, HTML]] = {}  # rank: its count, its lines
        self._box = self._keep(
            VBox(
                [
                    self._style, self._head, self._strip, self._note, self._image, self._alt,
                    self._fold("Ranks", self._ranks_count, section=True), self._ranks,
                    self._fold("Output", self._html("gpl-count"), section=True), self._logs,
                ],
                layout=self._layout,
            )
        )  # fmt: skip
        self._box.add_class("gpl")
        self._updated = self._framed = -1e9
        self._seen: tuple[int, int] | None = None  # versions of history and output that are on screen
        self._drawn: object = None  # what the picture was last made of
        self._frame_cost = 0.0  # seconds

    def show(self) -> None:
        """Put the view below the current cell."""
        self._paint()
        bundle = {
            "application/vnd.jupyter.widget-view+json": {"version_major": 2, "version_minor": 0, "model_id": self._box.model_id},
            "text/plain": self._history.header_line() or "run view",
        }
        self._handle = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]  # IPython has no annotations

    def refresh(self) -> None:
        """Bring the view up to date, unless that was done a moment ago. Cheap to call often."""
        now = self._clock()
        since = now - self._updated
        if since < UPDATE_SECONDS:
            return
        if self._seen != (self._history.version, self._history.output.version) or since >= TICK_SECONDS:
            self._paint()

    def finish(self) -> None:
        """Put the still in the view's place and drop the widgets. May be called twice."""
        handle, self._handle = self._handle, None
        if handle is not None:
            data, metadata = static_bundle(self._history, chart=self._chart.chart())
            handle.update(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]  # IPython has no annotations
        for widget in self._made:
            if isinstance(widget, HTML):
                widget.value = ""  # front ends keep a closed widget's last state in the notebook: make it small
            elif isinstance(widget, Image):
                widget.value = b""
        for widget in [*self._made, self._image.layout, self._layout, self._html_style]:
            widget.close()
        self._made = []

    def dismiss(self) -> None:
        """Take the view away without a trace: nothing was run, and the error that follows is all the cell shows."""
        if self._handle is not None:
            self._handle = None
            clear_output(wait=True)  # type: ignore[no-untyped-call]  # IPython has no annotations
        self.finish()

    def _paint(self) -> None:
        history = self._history
        self._updated = self._clock()
        self._seen, old = (history.version, history.output.version), self._seen
        self._head.value = f'<p class="gpl-shape">{escape(history.header_line())}</p>'
        self._strip.value = f'<div data-state="{history.state}">{status_strip(history)}{progress_bar(history)}</div>'
        self._note.value = message_line(history)
        self._ranks_count.value = escape(ranks_summary(history.rank_rows()))
        self._ranks.value = ranks_table(history)
        if old is None or old[1] != history.output.version or not self._texts:
            self._write()
        self._frame()

    def _write(self) -> None:
        """Output: a fold per rank; ranks beyond the most rows appear when they write something of their own."""
        history = self._history
        if not self._texts and history.world_size:
            children: list[Widget] = []
            for rank in range(min(history.world_size, MOST_ROWS)):
                count, lines = self._html("gpl-count"), self._html("gpl-body", "gpl-text", *(["first"] if rank == 0 else []))
                self._texts[rank] = (count, lines)
                children += [self._fold(f"rank {rank}", count, opened=rank == 0), lines]
            self._logs.children = children
        folded = history.output.folded(LIVE_LINES)
        for rank, (count, lines) in self._texts.items():
            own = folded.get(rank, [])
            count.value = output_summary(history.output, rank, own) if own else "nothing yet"
            lines.value = output_lines(history.output, rank, own)

    def _frame(self) -> None:
        now, history = self._clock(), self._history
        if now - self._framed < max(FRAME_SECONDS, self._frame_cost / FRAME_SHARE):
            return
        key = (history.last_step, len(history.epochs()), history.state, len(history.non_finite))
        if key == self._drawn:
            return
        self._drawn, self._framed = key, now
        began = time.perf_counter()
        chart = self._chart.chart()
        self._drawing.update(chart)
        self._image.value = self._drawing.png()
        self._alt.value = f'<span class="gpl-hidden">{escape(chart.alt())}</span>'  # Image has no alt, and its tooltip breaks it
        self._frame_cost = time.perf_counter() - began

    # Making widgets

    def _keep(self, widget: Any) -> Any:
        self._made.append(widget)
        return widget

    def _html(self, *classes: str) -> HTML:
        style = {} if self._html_style is None else {"style": self._html_style}
        widget: HTML = self._keep(HTML(layout=self._layout, **style))
        self._html_style = widget.style
        for name in classes:
            widget.add_class(name)
        return widget

    def _fold(self, title: str, count: HTML, *, opened: bool = True, section: bool = False) -> Box:
        """A line that opens and closes the widget after it. It is never sent again, so what the reader opened stays open."""
        toggle = self._html("gpl-toggle")
        toggle.value = f"<details{' open' if opened else ''}><summary><b>{escape(title)}</b></summary></details>"
        box: Box = self._keep(HBox([toggle, count], layout=self._layout))
        box.add_class("gpl-fold")
        if section:
            box.add_class("section")
        return box
