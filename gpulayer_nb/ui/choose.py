"""Which view a run gets.

Runs in the kernel. Owns the look around for widgets. Must not import them before one is wanted.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Protocol

from gpulayer_nb.records.history import RunHistory


class View(Protocol):
    """What the waiting loop calls, from the cell's own thread."""

    def show(self) -> None: ...
    def refresh(self) -> None: ...
    def finish(self) -> None: ...
    def dismiss(self) -> None: ...


def in_kernel() -> bool:
    """Whether this process is a Jupyter kernel with a front end that takes rich output."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # somebody has put None in its place
        return False


def choose_view(history: RunHistory, *, stops: bool = True) -> View:
    """In a notebook the page draws, or the kernel does where anywidget is missing; lines of text everywhere else.

    Args:
        stops: interrupting this kernel stops the run; not so where it only watches.
    """
    if in_kernel() and _installed("anywidget"):
        from gpulayer_nb.ui.canvas_view import CanvasView

        return CanvasView(history, stops=stops)
    if in_kernel() and _installed("ipywidgets"):
        from gpulayer_nb.ui.run_view import RunView

        return RunView(history)
    from gpulayer_nb.ui.text_view import TextView

    return TextView(history, sys.stdout, live=sys.stdout.isatty())
