"""The kernel's connection to one controller.

Runs in the notebook's kernel. Owns the ipyparallel client; everything here has a time limit. Must not know runs.
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import ipyparallel
from ipyparallel import AsyncResult

from gpulayer_nb.records.call import Call


class _QuietClient(ipyparallel.Client):  # type: ignore[misc]  # ipyparallel has no type hints
    """ipyparallel prints replies that come after their engine was given up into whatever cell runs then."""

    def _handle_apply_reply(self, msg: Any) -> None:
        with contextlib.redirect_stdout(io.StringIO()) if _is_stale(self, msg) else contextlib.nullcontext():
            super()._handle_apply_reply(msg)


def _is_stale(client: Any, msg: Any) -> bool:
    return msg["parent_header"].get("msg_id") not in client.outstanding


class Connection:
    """Calls and requests to engines, named by their uuid."""

    def __init__(self, client_file: Path, timeout_seconds: float = 20.0) -> None:
        self._client = _QuietClient(str(client_file), timeout=timeout_seconds)

    def engines(self) -> dict[str, int]:
        """uuid → ipyparallel's number, of every engine that is registered now."""
        client = self._client
        return {client._engines[number]: number for number in client.ids}

    def on_change(self, callback: Callable[[dict[str, Any]], None]) -> None:
        """`callback` hears of every registration and unregistration, on the client's own thread."""
        self._client._registration_callbacks.append(callback)

    def call(self, engine_uuid: str, call: Call, *args: Any) -> AsyncResult:
        """Runs a call on one engine's main thread; returns at once."""
        view = self._client.direct_view(targets=self.engines()[engine_uuid])
        return view.apply_async(call, *args)

    def request(
        self, engine_uuids: Iterable[str], message_type: str, content: dict[str, Any] | None = None, timeout_seconds: float = 2.0
    ) -> dict[str, dict[str, Any]]:
        """Sends a control-channel request to several engines at once; replies by uuid, without those that did not answer in time.

        Control requests are answered while an engine's main thread is busy. `_send` is private in ipyparallel, stable since 7.0;
        its public `send_signal` waits without limit.
        """
        client = self._client
        futures = {
            engine: client._send(client._control_stream, message_type, content=content or {}, ident=engine.encode())
            for engine in engine_uuids
        }
        deadline = time.monotonic() + timeout_seconds
        replies = {}
        for engine, future in futures.items():
            future.wait(max(0.0, deadline - time.monotonic()))
            if future.done():
                replies[engine] = future.result()["content"]
        return replies

    def forget_results(self) -> None:
        """Drops what the client keeps of finished calls: it would keep every result for ever."""
        client = self._client
        client.purge_local_results("all") if not client.outstanding else None
        client.history.clear()

    def close(self) -> None:
        self._client.close(linger=0)
