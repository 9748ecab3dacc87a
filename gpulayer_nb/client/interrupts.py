"""The notebook's stop button while a run is on.

Runs in the kernel's main thread. While a run starts an interrupt is an exception, as everywhere; once the ranks are at work it is
only counted, so that it can come at any moment, twice or late, and nothing that must be finished is left half done.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupts:
    """`presses` counts those that came since `count` was called."""

    def __init__(self) -> None:
        self.presses = 0
        self._counts = False

    @contextlib.contextmanager
    def taken(self) -> Iterator[Interrupts]:
        """Interrupts come here inside. Other threads than the main one cannot take them."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = signal.signal(signal.SIGINT, self._on_signal)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, before)

    def count(self) -> None:
        """From now on an interrupt raises nothing."""
        self._counts = True

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._counts:
            raise KeyboardInterrupt
        self.presses += 1
