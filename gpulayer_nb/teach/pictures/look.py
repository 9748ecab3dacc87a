"""How the pictures of the course look: colours, sizes, faces.

Runs wherever matplotlib runs. Owns what makes them legible at the back of a lecture hall and to colour-blind readers. Must not
know what a picture shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

WIDTH_INCHES = 8.0
SMALL, BODY, TITLE = 14, 15, 17  # points on 8 inches; nothing is smaller than SMALL
THIN, LINE, BOLD = 1.2, 2.6, 4.0  # points: outlines, curves, the one line that matters

# Okabe and Ito's colours, chosen to differ for every kind of colour vision. A rank keeps its colour in every picture; ranks 4-7
# repeat the four with a hatch, ranks 8-11 with another. The rank's number is always printed too.
RANK_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
RANK_HATCHES = ("", "//", "..", "xx")
WIRE = "#E69F00"  # bytes travelling between ranks, always with an ink outline; nothing else is orange
COMPUTE = {"forward": "#C4CBD3", "backward": "#8A94A0", "optimizer": "#4A535E"}  # greys: computing is not the news


@dataclass(frozen=True)
class Theme:
    """Colours of one face; text has a contrast of at least 4.5 to what it stands on."""

    face: str
    ink: str
    muted: str
    line: str
    fill: str


LIGHT = Theme(face="#FFFFFF", ink="#1B1F24", muted="#57606A", line="#8C959F", fill="#EEF1F4")
DARK = Theme(face="#111418", ink="#E6EAEE", muted="#A9B2BC", line="#6E7883", fill="#232930")


@contextmanager
def canvas(theme: Theme) -> Iterator[None]:
    """matplotlib's settings for one picture; nothing leaks into the reader's own plots."""
    settings = {
        "font.family": "DejaVu Sans",  # ships with matplotlib: the same picture everywhere
        "font.size": BODY, "axes.titlesize": BODY, "axes.labelsize": BODY,
        "xtick.labelsize": SMALL, "ytick.labelsize": SMALL, "legend.fontsize": SMALL, "figure.titlesize": TITLE,
        "figure.facecolor": theme.face, "axes.facecolor": theme.face, "savefig.facecolor": theme.face,
        "text.color": theme.ink, "axes.labelcolor": theme.ink, "axes.edgecolor": theme.line,
        "xtick.color": theme.ink, "ytick.color": theme.ink, "axes.titlecolor": theme.ink,
        "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": THIN,
        "axes.titlelocation": "left", "lines.linewidth": LINE, "hatch.linewidth": 1.6, "hatch.color": theme.ink,
        "legend.frameon": False, "legend.labelcolor": theme.ink, "axes.unicode_minus": True,
    }  # fmt: skip
    with mpl.rc_context(settings):  # type: ignore[arg-type]  # matplotlib 3.11 types the keys one by one
        yield


def new_figure(height_inches: float, theme: Theme) -> Figure:
    """An empty figure of the usual width that pyplot does not keep alive."""
    return Figure(figsize=(WIDTH_INCHES, height_inches), layout=None, facecolor=theme.face)


def rank_color(rank: int) -> str:
    return RANK_COLORS[rank % len(RANK_COLORS)]


def rank_hatch(rank: int) -> str:
    return RANK_HATCHES[rank // len(RANK_COLORS) % len(RANK_HATCHES)]


def luminance(color: str) -> float:
    """Relative luminance as WCAG 2.2 defines it, from 0 to 1."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color))
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)


def contrast(a: str, b: str) -> float:
    """Contrast of two colours as WCAG 2.2 defines it, from 1 to 21."""
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def ink_on(color: str) -> str:
    """Black or white, whichever reads better on that colour."""
    return max(("#000000", "#FFFFFF"), key=lambda ink: contrast(ink, color))
