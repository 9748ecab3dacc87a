"""KeyboardInterrupt for the user's code only.

Runs in each rank's process. Owns SIGINT while a run is on. An interrupt that comes late must never hit our own clean-up.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class InterruptGate:
    """Lets interrupts through while user code runs on the main thread, and at no other time."""

    def __init__(self) -> None:
        self._open = False
        self._was_interrupted = False

    @property
    def is_open(self) -> bool:
        """Whether user code runs now."""
        return self._open

    @property
    def was_interrupted(self) -> bool:
        """Whether the present or last opening was interrupted."""
        return self._was_interrupted

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """User code runs inside; call on the main thread."""
        before = signal.signal(signal.SIGINT, self._on_signal)
        self._was_interrupted = False
        self._open = True
        try:
            yield
        finally:
            self._open = False
            signal.signal(signal.SIGINT, before)

    @contextlib.contextmanager
    def shut(self) -> Iterator[None]:
        """No interrupt comes through inside: the user's code is over, its error is being drawn."""
        before, self._open = self._open, False
        try:
            yield
        finally:
            self._open = before

    def interrupt(self) -> bool:
        """Called from the control thread. False if no user code runs."""
        if not self._open:
            return False
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return True

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._open:
            self._was_interrupted = True
            raise KeyboardInterrupt
