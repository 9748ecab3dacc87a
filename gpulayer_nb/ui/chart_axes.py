"""One panel of the curves: a caption, an axes, its lines and marks.

Runs in the kernel. Owns geometry and strokes of one panel. Must not know records or where the figure goes.
"""

from __future__ import annotations

import math
from typing import Any

from matplotlib.artist import Artist
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import blended_transform_factory

from gpulayer_nb.ui import number
from gpulayer_nb.ui.palette import Palette
from gpulayer_nb.ui.panel import Chart, Panel
from gpulayer_nb.ui.panel_caption import PanelCaption
from gpulayer_nb.ui.ticks import ends, every, finite_range, labels, ticks
from gpulayer_nb.ui.typeface import PX, SMALL, faces

HEIGHT = 200  # CSS pixels: caption 20, epoch numbers 19, curves 142, steps 19
LEFT, RIGHT, TOP, BOTTOM = 42, 12, 39, 19  # around the curves
DPI = 96  # CSS pixels per inch


class ChartAxes:
    """Artists are made once; `update` gives them new points. Lengths are CSS pixels from the figure's upper left."""

    def __init__(self, figure: Figure, x: float, y: float, width: float, palette: Palette) -> None:
        self._figure, self._palette = figure, palette
        self._x, self._y = x, y
        self._full_width, self._full_height = (float(inches) * DPI for inches in figure.get_size_inches())
        self._width = width - LEFT - RIGHT  # of the curves
        height = HEIGHT - TOP - BOTTOM
        self.axes = figure.add_axes(
            (
                (x + LEFT) / self._full_width,
                1 - (y + TOP + height) / self._full_height,
                self._width / self._full_width,
                height / self._full_height,
            )
        )
        self._range: tuple[float, float] | None = None  # of all values so far: the axis never shrinks
        self._axis: object = None  # what the ticks were last made for
        self._epochs: object = None  # what the epoch marks were last made for
        self._passing: list[Any] = []  # artists of epoch marks
        self._ending: list[Any] = []  # artists of gaps and of the end
        self.backdrop_changed = True  # something that `moving` does not hold has changed since a drawing reset this
        self._caption = PanelCaption(figure, self._place, palette)
        self._dress()

    def update(self, chart: Chart, panel: Panel | None) -> None:
        """Show a panel; None stands for the frame before the first value."""
        if panel is None:
            return
        if self._empty.get_visible():
            self._empty.set_visible(False)
            self.backdrop_changed = True
        hue = self._palette.hue(panel.hue)
        self.axes.set_xlim(chart.left, max(chart.right, chart.left + 1))
        smooth = panel.mean if panel.mean.steps else panel.train
        self._draw(self._raw, panel.raw.steps, panel.raw.values, hue)
        self._draw(self._mean, smooth.steps, smooth.values, hue)
        self._draw(self._val, panel.val.steps, panel.val.values, hue)
        self._val.set_markevery(every(self._width / max(1, len(panel.val.steps)), 9))
        self._mean.set_marker("" if panel.mean.steps else "o")
        running = chart.state in ("starting", "running", "stopping")
        self._draw(self._tip, smooth.steps[-1:] if running else [], smooth.values[-1:] if running else [], hue)
        self._scale(panel)
        self._mark_epochs(chart)
        self._mark_ends(chart, panel, smooth.values[-1] if smooth.values else math.nan)
        self.backdrop_changed |= self._caption.update(panel, panel.caption(not running, chart.epoch_ends), hue)

    def moving(self) -> list[Artist]:
        """The artists that change with every step, lowest first; all others are the backdrop."""
        return [self._raw, self._mean, self._val, *self._ending, self._tip, *self._caption.moving()]

    @staticmethod
    def _draw(line: Line2D, steps: list[int], values: list[float], hue: str) -> None:
        line.set_data(steps, values)
        line.set_color(hue)

    def _place(self, x: float, y: float) -> tuple[float, float]:
        """Figure fractions of a place in CSS pixels from the panel's upper left."""
        return (self._x + x) / self._full_width, 1 - (self._y + y) / self._full_height

    def _word(self, x: float, y: float, words: str, **style: Any) -> Text:
        style = {"fontsize": SMALL, "color": self._palette.muted, "family": faces(), **style}
        return self._figure.text(*self._place(x, y), words, **style)

    def _dress(self) -> None:
        axes, palette = self.axes, self._palette
        axes.set_facecolor("none")  # the figure's own ground is behind it
        for side in axes.spines.values():
            side.set_visible(False)
        axes.tick_params(length=0, labelsize=SMALL, labelcolor=palette.muted, labelfontfamily=faces())
        axes.tick_params(axis="y", pad=6 * PX)
        axes.tick_params(axis="x", pad=5 * PX)
        axes.grid(axis="y", color=palette.grid, linewidth=PX)
        axes.set_axisbelow(True)
        axes.set_yticks([])
        axes.set_xticks([])
        self._word(LEFT - 6, HEIGHT - BOTTOM + 5, "step", ha="right", va="top")
        self._word(LEFT - 6, TOP - 8, "epoch", ha="right")
        middle = (LEFT + self._width / 2, TOP + (HEIGHT - TOP - BOTTOM) / 2)
        self._empty = self._word(*middle, "begins with the first step", ha="center")
        self._raw = self._line(linewidth=PX, alpha=0.28)
        self._mean = self._line(linewidth=1.75 * PX, markersize=5 * PX)
        self._val = self._line(
            linewidth=1.75 * PX, dashes=(5 / 1.75, 3 / 1.75), dash_capstyle="butt",
            marker="o", markersize=6 * PX, markeredgewidth=1.5 * PX, markerfacecolor=palette.ground,
        )  # fmt: skip
        self._tip = self._line(linestyle="none", marker="o", markersize=5 * PX)
        self._down = blended_transform_factory(axes.transData, axes.transAxes)  # x in steps, y as a share of the height

    def _line(self, **style: Any) -> Line2D:
        line = Line2D([], [], solid_joinstyle="round", clip_on=False, zorder=3, **style)
        self.axes.add_line(line)
        return line

    def _scale(self, panel: Panel) -> None:
        seen = finite_range(series.values for series in (panel.raw, panel.mean, panel.train, panel.val))
        if seen is not None:
            old = self._range or seen
            self._range = (min(old[0], seen[0]), max(old[1], seen[1]))
        low, high = ends(*self._range) if self._range else (0.0, 1.0)
        left, right = self.axes.get_xlim()
        if self._axis != (low, high, left, right):
            self._axis = (low, high, left, right)
            self.backdrop_changed = True
            self.axes.set_ylim(low, high)
            levels = ticks(low, high, 5)
            self.axes.set_yticks(levels, labels(levels))
            steps = ticks(left, right, self._width / 90)
            steps = [s for s in steps if s == int(s)]
            self.axes.set_xticks(steps, [number.count(int(s)) for s in steps])
            for step, label in zip(steps, self.axes.get_xticklabels(), strict=True):
                near_end = (right - step) / (right - left) * self._width < 14
                label.set_horizontalalignment("left" if step == left else "right" if near_end else "center")

    def _mark_epochs(self, chart: Chart) -> None:
        """A dotted line at each epoch end, its number on top; fewer numbers, then fewer lines, when they get close."""
        key = (chart.left, chart.right, len(chart.epoch_ends), max(chart.epoch_ends.values(), default=0))
        if key == self._epochs:
            return
        self._epochs = key
        self.backdrop_changed = True
        _clear(self._passing)
        marks = sorted((step, epoch + 1) for epoch, step in chart.epoch_ends.items() if chart.left < step <= chart.right)
        if not marks:
            return
        apart = self._width / max(1, chart.right - chart.left) * (marks[-1][0] - chart.left) / len(marks)
        numbers, lines = every(apart, 22), 1 if apart >= 6 else every(apart, 22)
        rules = [[(step, 0.0), (step, 1.03)] for step, epoch in marks if epoch % lines == 0]
        dots = LineCollection(
            rules, colors=self._palette.muted, linewidths=PX, linestyles=[(0, (1, 3))], alpha=0.75, transform=self._down,
            clip_on=False, zorder=2,
        )  # fmt: skip
        self._passing.append(self.axes.add_collection(dots, autolim=False))
        style: dict[str, Any] = {"fontsize": SMALL, "color": self._palette.muted, "family": faces(), "ha": "center"}
        above = 1 + 8 / (HEIGHT - TOP - BOTTOM)
        for step, epoch in marks:
            if epoch % numbers == 0:
                self._passing.append(self.axes.text(step, above, number.count(epoch), transform=self._down, **style))

    def _mark_ends(self, chart: Chart, panel: Panel, value: float) -> None:
        """Stretches that are not finite, and where a run broke off."""
        _clear(self._ending)
        least = 5 * (chart.right - chart.left) / self._width  # two rules are at least 5 px apart
        for first, last, words in panel.gaps:
            right = max(last, first + least)
            for step in (first, right):
                self._rule(step, 0.9, color=self._palette.warn, linewidth=1.5 * PX)
            middle = (first + right) / 2
            share = (middle - chart.left) / (chart.right - chart.left)
            self._note(middle, 0.93, words, ha="left" if share < 0.25 else "right" if share > 0.75 else "center")
        if chart.state not in ("failed", "stopped") or chart.last_step <= chart.left:
            return
        at = chart.last_step
        self._rule(at, 1, color=self._palette.text, linewidth=PX)
        style: dict[str, Any] = {"marker": "s", "color": self._palette.hue(panel.hue), "markersize": 7 * PX}
        if chart.state == "failed":
            style = {"marker": "x", "color": self._palette.bad, "markeredgewidth": 2 * PX, "markersize": 8 * PX}
        mark = Line2D([at], [value], linestyle="none", clip_on=False, zorder=6, **style)
        self._ending.append(self.axes.add_line(mark))
        low, high = self.axes.get_ylim()
        y = 0.04 if math.isfinite(value) and (value - low) > 0.5 * (high - low) else 0.92
        aside = 7 * (chart.right - chart.left) / self._width
        left = at > (chart.left + chart.right) / 2
        self._note(at - aside if left else at + aside, y, chart.state, ha="right" if left else "left")

    def _rule(self, step: float, top: float, **style: Any) -> None:
        line = Line2D([step, step], [0, top], transform=self._down, zorder=4, clip_on=False, **style)
        self._ending.append(self.axes.add_line(line))

    def _note(self, step: float, y: float, words: str, **style: Any) -> None:
        style |= {"fontsize": SMALL, "color": self._palette.text, "family": faces(), "transform": self._down, "zorder": 5}
        box = {"facecolor": self._palette.ground, "edgecolor": "none", "pad": 1.5}
        self._ending.append(self.axes.text(step, y, words, bbox=box, **style))


def _clear(artists: list[Any]) -> None:
    for artist in artists:
        artist.remove()
    artists.clear()
