"""A matplotlib figure that shows itself in a notebook, also where pyplot was never imported.

Runs in the kernel. Owns the picture's words for readers who do not see it.
"""

from __future__ import annotations

import io
from typing import Any

from matplotlib.figure import Figure

DPI = 150


class RunFigure(Figure):
    """`alt` says what the figure shows; all of matplotlib's Figure works on it."""

    alt = "curves of a run"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        target = io.BytesIO()
        self.savefig(target, format="png", dpi=DPI, facecolor=self.get_facecolor())
        return {"image/png": target.getvalue(), "text/plain": self.alt}, {"image/png": {"alt": self.alt}}
