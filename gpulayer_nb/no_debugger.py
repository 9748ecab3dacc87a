"""Keeps ipykernel's debugger out of processes that no front end can attach one to: ranks and supervisors."""

from __future__ import annotations

import sys


def leave_debugger_out() -> None:
    """From now on a kernel made in this process has no debugger, as where debugpy is not installed.

    A kernel imports debugpy when it is made: a tenth of a second and some megabytes in every rank. `import debugpy` works
    afterwards.
    """
    if "ipykernel.debugger" in sys.modules or "debugpy" in sys.modules:
        return
    sys.modules["debugpy"] = None  # type: ignore[assignment]  # an import of it fails, as where it is not installed
    try:
        import ipykernel.debugger  # noqa: F401
    finally:
        del sys.modules["debugpy"]
