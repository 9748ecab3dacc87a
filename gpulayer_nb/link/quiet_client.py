"""ipyparallel's client without two of its faults.

Imported late: ipyparallel takes most of a second to import, which the engines' start hides.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import io
import math
import time
from typing import Any

import ipyparallel

_SETTLED_SECONDS = 1.0  # after which a subscription has surely reached the hub
_PAUSE_SECONDS = 0.05
_REPLY_SECONDS = 2.0


class QuietClient(ipyparallel.Client):  # type: ignore[misc]  # ipyparallel has no type hints
    """Two faults of ipyparallel are not in it.

    It prints replies that come after their engine was given up into whatever cell runs then. And it may miss engines that
    register while it connects: `catch_up`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._connected_at, self._asked, self._is_settled = time.monotonic(), -math.inf, False

    def _handle_apply_reply(self, msg: Any) -> None:
        with contextlib.redirect_stdout(io.StringIO()) if _is_stale(self, msg) else contextlib.nullcontext():
            super()._handle_apply_reply(msg)

    def catch_up(self) -> None:
        """Asks the hub for its engines again, until the client surely hears of every new one by itself.

        ipyparallel asks first and subscribes to news afterwards: an engine that registers in between stays unknown to it.
        """
        now = time.monotonic()
        if self._is_settled or now - self._asked < _PAUSE_SECONDS:
            return
        self._asked = now
        is_last = now - self._connected_at > _SETTLED_SECONDS
        with contextlib.suppress(TimeoutError, concurrent.futures.TimeoutError, OSError):  # it is busy, or we have closed
            reply = self._send(self._query_stream, "connection_request").result(_REPLY_SECONDS)
            merged: concurrent.futures.Future[None] = concurrent.futures.Future()
            self._io_loop.add_callback(self._merge, reply["content"]["engines"], merged)
            merged.result(_REPLY_SECONDS)
            self._is_settled = is_last

    def _merge(self, engines: dict[str, str], merged: concurrent.futures.Future[None]) -> None:
        """On the client's own thread, which takes in news meanwhile: two at once would lose one of them."""
        self._update_engines(engines)
        merged.set_result(None)


def _is_stale(client: Any, msg: Any) -> bool:
    return msg["parent_header"].get("msg_id") not in client.outstanding
