"""The curves as a matplotlib figure.

Runs in the kernel, in any thread: it never touches pyplot. Owns the look of the drawing. Must not know records.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from gpulayer_nb.ui.chart_axes import DPI, HEIGHT, ChartAxes
from gpulayer_nb.ui.palette import LIGHT, Palette
from gpulayer_nb.ui.panel import Chart, ChartModel

if TYPE_CHECKING:
    from gpulayer_nb.records.history import RunHistory

WIDTH = 960  # CSS pixels
COLUMN_GAP, ROW_GAP = 20, 8
MARGIN = 8  # around a figure that stands alone
COLOURS = 64  # of the PNG: a quarter of the size, and no visible loss in flat drawings


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
        self.figure = Figure(figsize=(width / DPI, HEIGHT / DPI), dpi=DPI * scale, facecolor=palette.ground)
        FigureCanvasAgg(self.figure)
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
        canvas = self.figure.canvas
        assert isinstance(canvas, FigureCanvasAgg)  # made in __init__
        canvas.draw()  # type: ignore[no-untyped-call]  # matplotlib's canvases have no annotations
        pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]  # as above; (height, width, 4) bytes
        picture = Image.fromarray(pixels).convert("RGB")
        picture = picture.quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        picture.putpalette(_with_exact(picture.getpalette() or [], self._palette.ground))
        target = io.BytesIO()
        picture.save(target, "PNG", compress_level=6)
        return target.getvalue()

    def _lay_out(self, panels: int) -> None:
        columns = 1 if panels == 1 else 2
        rows = math.ceil(panels / columns)
        margin = self._margin
        self.height = 2 * margin + rows * HEIGHT + (rows - 1) * ROW_GAP
        self.figure.clear()
        self.figure.set_size_inches(self.width / DPI, self.height / DPI)
        each = (self.width - 2 * margin - COLUMN_GAP * (columns - 1)) / columns
        self._axes = [
            ChartAxes(self.figure, margin + column * (each + COLUMN_GAP), margin + row * (HEIGHT + ROW_GAP), each, self._palette)
            for row, column in (divmod(i, columns) for i in range(panels))
        ]


def _with_exact(levels: list[int], colour: str) -> list[int]:
    """The palette with the entry nearest to `colour` made equal to it: the ground must not differ from the page by a shade."""
    exact = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    nearest = min(range(0, len(levels) - 2, 3), key=lambda i: sum(abs(levels[i + k] - exact[k]) for k in range(3)), default=None)
    if nearest is not None:
        levels[nearest : nearest + 3] = exact
    return levels


def make_figure(history: RunHistory, *, width: int = WIDTH, palette: Palette = LIGHT) -> Figure:
    """The run's curves as a figure of one's own: `savefig`, `axes` and all else of matplotlib work on it."""
    drawing = ChartFigure(width, scale=1.0, palette=palette, margin=MARGIN)
    drawing.update(ChartModel(history).chart())
    return drawing.figure
