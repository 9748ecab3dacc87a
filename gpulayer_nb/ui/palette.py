"""The colours of drawn curves.

Runs in the kernel. Owns the values that CSS cannot reach because they are painted. Must not know matplotlib.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Palette:
    """Colours of one theme. `hues`: one per metric, in order of appearance, all at least 3.0 against `ground`."""

    ground: str
    text: str
    muted: str
    grid: str
    bad: str
    warn: str
    hues: tuple[str, ...]

    def hue(self, index: int) -> str:
        return self.hues[index % len(self.hues)]


LIGHT = Palette(
    ground="#ffffff", text="#222222", muted="#757575", grid="#e9e9e9", bad="#b71c1c", warn="#e65100",
    hues=("#3f6ad0", "#a34c10", "#14a5a5", "#660b4f", "#a4910c", "#565b6a"),
)  # fmt: skip
DARK = Palette(
    ground="#111111", text="#dfdfdf", muted="#919191", grid="#343434", bad="#d32f2f", warn="#f57c00",
    hues=("#5385e8", "#ec974e", "#72f2d1", "#b1688c", "#f9dd50", "#a0afc4"),
)  # fmt: skip
