"""When each worker of a cluster was last heard.

Runs in the kernel on the tap's thread. A worker's word comes through the controller, so silence of all means the controller, or
the way to it.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Any

from gpulayer_nb.link.tap import Tap
from gpulayer_nb.records import wire


class Beats:
    """Times are monotonic seconds; silence counts from the moment of listening for a worker that was never heard."""

    def __init__(self, info: dict[str, Any]) -> None:
        self._began = time.monotonic()
        self._heard: dict[str, float] = {}
        self._left: dict[str, str] = {}
        self._lock = threading.Lock()
        self._tap = Tap(info, self._hear, topics=(wire.BEAT_TOPIC.encode(),))
        self._tap.start()

    def _hear(self, topic: str, message: dict[str, Any]) -> None:
        if message["header"]["msg_type"] == wire.WORKER_BEAT:
            key, why = message["content"]["worker"], message["content"].get("left")
            with self._lock:
                self._heard[key] = time.monotonic()
                if why:
                    self._left[key] = why

    def silent_seconds(self, key: str) -> float:
        """Infinite for one that has said that it ends."""
        with self._lock:
            return math.inf if key in self._left else time.monotonic() - self._heard.get(key, self._began)

    def why_left(self, key: str) -> str | None:
        """A worker's last word; None if it has not said one."""
        with self._lock:
            return self._left.get(key)

    def all_silent_seconds(self) -> float:
        """Since the last word of any worker."""
        with self._lock:
            return time.monotonic() - max(self._heard.values(), default=self._began)

    def end(self) -> None:
        self._tap.end()
