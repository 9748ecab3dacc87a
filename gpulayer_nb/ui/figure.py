"""The curves as a matplotlib figure.

Runs in the kernel, in any thread: it never touches pyplot. Owns the look of the drawing. Must not know records.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gpulayer_nb.ui.chart_axes import DPI, HEIGHT, ChartAxes
from gpulayer_nb.ui.palette import LIGHT, Palette
from gpulayer_nb.ui.panel import Chart, ChartModel
from gpulayer_nb.ui.picture import encoded
from gpulayer_nb.ui.run_figure import RunFigure

if TYPE_CHECKING:
    from gpulayer_nb.records.history import RunHistory

WIDTH = 960  # CSS pixels
COLUMN_GAP, ROW_GAP = 20, 8
MARGIN = 8  # around a figure that stands alone


class ChartFigure:
    """One figure kept for the life of a view; `update` changes its lines in place.

    Args:
        width: CSS pixels.
        scale: device pixels per CSS pixel of `png`.
        margin: CSS pixels of plain ground on every side.
    """

    def __init__(self, width: int = WIDTH, scale: float = 1.5, palette: Palette = LIGHT, margin: int = 0) -> None:
        self.width, self.height = width, HEIGHT
        self._margin = margin
        self._scale = scale
        self._palette = palette
        self.figure = RunFigure(figsize=(width / DPI, HEIGHT / DPI), dpi=DPI * scale, facecolor=palette.ground)
        self._canvas = FigureCanvasAgg(self.figure)
        self._backdrop: object = None  # pixels of all that does not move
        self._axes: list[ChartAxes] = []

    def update(self, chart: Chart) -> None:
        """Show this chart."""
        wanted = max(1, len(chart.panels))
        if wanted != len(self._axes):
            self._lay_out(wanted)
        for axes, panel in zip(self._axes, chart.panels or (None,), strict=True):
            axes.update(chart, panel)

    def png(self) -> bytes:
        """The picture, `width * scale` pixels wide, on an opaque ground."""
        self._draw()
        pixels = np.asarray(self._canvas.buffer_rgba())  # type: ignore[no-untyped-call]  # as below; (height, width, 4) bytes
        return encoded(pixels)

    def _draw(self) -> None:
        """Draw what moves on a kept backdrop: axes and words are half of a frame's cost and seldom change."""
        moving = [artist for axes in self._axes for artist in axes.moving()]
        if self._backdrop is None or any(axes.backdrop_changed for axes in self._axes):
            for artist in moving:
                artist.set_animated(True)  # leaves it out of the backdrop
            self._canvas.draw()  # type: ignore[no-untyped-call]  # matplotlib's canvases have no annotations
            for artist in moving:
                artist.set_animated(False)  # the figure may be saved by its owner
            self._backdrop = self._canvas.copy_from_bbox(self.figure.bbox)  # type: ignore[no-untyped-call]  # as above
            for axes in self._axes:
                axes.backdrop_changed = False
        else:
            self._canvas.restore_region(self._backdrop)  # type: ignore[no-untyped-call]  # as above
        renderer = self._canvas.get_renderer()  # type: ignore[no-untyped-call]  # as above
        for artist in moving:
            artist.draw(renderer)

    def _lay_out(self, panels: int) -> None:
        columns = 1 if panels == 1 else 2
        rows = math.ceil(panels / columns)
        margin = self._margin
        self.height = 2 * margin + rows * HEIGHT + (rows - 1) * ROW_GAP
        self._backdrop = None
        self.figure.clear()
        self.figure.set_size_inches(self.width / DPI, self.height / DPI)
        each = (self.width - 2 * margin - COLUMN_GAP * (columns - 1)) / columns
        self._axes = [
            ChartAxes(self.figure, margin + column * (each + COLUMN_GAP), margin + row * (HEIGHT + ROW_GAP), each, self._palette)
            for row, column in (divmod(i, columns) for i in range(panels))
        ]


def make_figure(history: RunHistory, *, width: int = WIDTH, palette: Palette = LIGHT) -> Figure:
    """The run's curves as a figure of one's own: `savefig`, `axes` and all else of matplotlib work on it."""
    drawing = ChartFigure(width, scale=1.0, palette=palette, margin=MARGIN)
    chart = ChartModel(history).chart()
    drawing.update(chart)
    drawing.figure.alt = chart.alt()
    return drawing.figure
