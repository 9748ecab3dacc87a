"""The letters in drawings.

Runs in the kernel. Owns sizes and the choice of fonts. Must not know what is written.
"""

from __future__ import annotations

from functools import cache

from matplotlib.font_manager import fontManager

PX = 72 / 96  # points per CSS pixel
SMALL, TEXT = 11 * PX, 13 * PX
FACES = ("Inter", "Helvetica Neue", "Segoe UI", "Arial", "Liberation Sans", "DejaVu Sans")  # the last comes with matplotlib


@cache
def faces() -> tuple[str, ...]:
    """The fonts of the list that this machine has, best first; a font that is missing would be warned about."""
    known = {font.name for font in fontManager.ttflist}
    return tuple(face for face in FACES if face in known)
