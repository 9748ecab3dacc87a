"""The widget whose page side is `canvas_view.js`.

Runs in the kernel; anywidget is needed to import it. Owns nothing but the pairing of the two sides.
"""

from __future__ import annotations

from importlib.resources import files

import anywidget
from traitlets import Bool, Unicode

_HERE = files(__package__)


def _text(name: str) -> str:
    return _HERE.joinpath(name).read_text(encoding="utf-8")


class CanvasWidget(anywidget.AnyWidget):
    """Everything but the kernel's id comes in messages, so that a saved widget state holds nothing of the run."""

    _esm = _text("canvas_view.js")
    _css = _text("run_view.css") + _text("canvas_view.css")
    kernel_id = Unicode().tag(sync=True)
    stops = Bool(True).tag(sync=True)  # whether interrupting this kernel stops the run

    def wipe(self) -> None:
        """Leave as little as can be in the state that front ends keep."""
        self._esm = "export default {}"
        self._css = ""

    def close(self) -> None:
        """Close this and the layout that came with it."""
        layout = self.layout
        super().close()
        layout.close()
