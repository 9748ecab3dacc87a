"""The line above a panel: the metric's name, a sample of each line, its value.

Runs in the kernel. Owns the places of these words. Must not know where values come from.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from gpulayer_nb.ui.palette import Palette
from gpulayer_nb.ui.panel import Panel
from gpulayer_nb.ui.typeface import PX, SMALL, TEXT, faces

_DIGIT = re.compile(r"\d")
BASE = 14  # CSS pixels from the top to the base line
SAMPLE = 24  # length of the sample of a line
NAME = 24  # characters of a name that are shown
FIRST_KEY, NEXT_KEY = 56, 158  # CSS pixels: where keys begin at the earliest, and their least distance


class PanelCaption:
    """`place` turns CSS pixels from the panel's upper left into figure fractions."""

    def __init__(self, figure: Figure, place: Callable[[float, float], tuple[float, float]], palette: Palette) -> None:
        self._figure, self._place, self._palette = figure, place, palette
        self._name = self._word(palette.text, TEXT, weight="bold")
        self._keys = {kind: _Key(self, kind) for kind in ("train", "val")}
        self._widths: dict[tuple[float, str], float] = {}
        self._still: object = None  # what the artists that seldom change were last made for

    def update(self, panel: Panel, values: list[tuple[str, str, str]], hue: str) -> bool:
        """Write `values`, as `Panel.caption` gives them. True if anything but the moving artists changed."""
        name = panel.name if len(panel.name) <= NAME else panel.name[: NAME - 1] + "…"
        self._put(self._name, 0, name)
        at = max(FIRST_KEY, self._width(self._name) + 12)
        shown = {kind: (value, what) for kind, value, what in values}
        still = [name, hue]
        for kind, key in self._keys.items():
            if kind in shown:
                still.append(f"{kind} {at}")
                at = max(key.update(at, *shown[kind], hue) + 20, at + NEXT_KEY)
            else:
                key.hide()
        changed, self._still = still != self._still, still
        return changed

    def moving(self) -> list[Artist]:
        """The words that change with every step."""
        return [word for key in self._keys.values() for word in (key.value, key.what)]

    def _word(self, colour: str, size: float, **style: Any) -> Text:
        return self._figure.text(*self._place(0, BASE), "", color=colour, fontsize=size, family=faces(), **style)

    def _put(self, word: Text, x: float, words: str) -> None:
        word.set_text(words)
        word.set_x(self._place(x, BASE)[0])

    def _width(self, word: Text) -> float:
        """CSS pixels. All digits are equally wide, so a number is measured once for all of its length."""
        key = (float(word.get_fontsize()), _DIGIT.sub("0", word.get_text()))
        if key not in self._widths:
            if len(self._widths) > 200:
                self._widths.clear()
            self._widths[key] = float(word.get_window_extent().width) / self._figure.dpi * 96
        return self._widths[key]


class _Key:
    def __init__(self, caption: PanelCaption, kind: str) -> None:
        self._caption, self._kind = caption, kind
        palette = caption._palette
        style: dict[str, Any] = {"linewidth": 1.75 * PX, "transform": caption._figure.transFigure}
        if kind == "val":
            style |= {"dashes": (5 / 1.75, 3 / 1.75), "marker": "o", "markersize": 6 * PX, "markeredgewidth": 1.5 * PX}
            style |= {"markerfacecolor": palette.ground, "markevery": [1]}
        self._sample = Line2D([], [], **style)
        caption._figure.add_artist(self._sample)
        self._word = caption._word(palette.muted, TEXT)
        self.value = caption._word(palette.text, TEXT)
        self.what = caption._word(palette.muted, SMALL)

    def update(self, x: float, value: str, what: str, hue: str) -> float:
        """Write at `x`; returns where the key ends (CSS pixels)."""
        caption = self._caption
        places = [caption._place(x + part * SAMPLE, BASE - 5) for part in (0, 0.5, 1)]
        self._sample.set_data([p[0] for p in places], [p[1] for p in places])
        self._sample.set_color(hue)
        x += SAMPLE + 5
        for word, words, space in ((self._word, self._kind, 4), (self.value, value, 5), (self.what, what, 0)):
            caption._put(word, x, words)
            x += caption._width(word) + space if words else 0
        return x

    def hide(self) -> None:
        self._sample.set_data([], [])
        for word in (self._word, self.value, self.what):
            word.set_text("")
