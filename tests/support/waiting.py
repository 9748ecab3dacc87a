"""Waits with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(happens: Callable[[], object], seconds: float = 60.0) -> None:
    """Until a condition holds."""
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline, f"it has not happened in {seconds:.0f} s"
        time.sleep(0.02)
