"""One process's connection to one controller.

Runs in the notebook's kernel, a detached run's own process and the Jupyter server. Owns the ipyparallel client; everything here
has a time limit. Must not know runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulayer_nb.link import ipv6
from gpulayer_nb.records.call import Call
from gpulayer_nb.records.connection_file import is_ipv6, with_address

if TYPE_CHECKING:
    from ipyparallel import AsyncResult


def preload() -> None:
    """Imports what a connection needs, while something else is being waited for."""
    import gpulayer_nb.link.quiet_client  # noqa: F401


class Connection:
    """Calls and requests to engines, named by their uuid."""

    def __init__(self, client_file: Path, timeout_seconds: float = 20.0) -> None:
        from gpulayer_nb.link.quiet_client import QuietClient

        # Without a location: by that ipyparallel takes a tunnel for a mistake, and recommends its own.
        info = {**with_address(json.loads(client_file.read_text())), "location": None}
        own = {"context": ipv6.context()} if is_ipv6(info) else {}
        self._client: Any = QuietClient(info, timeout=timeout_seconds, **own)

    def engines(self) -> dict[str, int]:
        """uuid → ipyparallel's number, of every engine that is registered now."""
        client = self._client
        client.catch_up()
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
        """Sends one control-channel request to several engines; replies by uuid, without those that did not answer in time.

        Control requests are answered while an engine's main thread is busy. `_send` is private in ipyparallel, stable since 7.0;
        its public `send_signal` waits without limit.
        """
        return self.request_each(dict.fromkeys(engine_uuids, content or {}), message_type, timeout_seconds)

    def begin(self, engine_uuid: str, message_type: str, content: Mapping[str, Any], buffers: Sequence[Any] = ()) -> Any:
        """Sends a control-channel request and returns at once: a future of the reply message."""
        client = self._client
        stream = client._control_stream
        return client._send(stream, message_type, content=dict(content), buffers=list(buffers), ident=engine_uuid.encode())

    def request_each(
        self, contents: Mapping[str, Mapping[str, Any]], message_type: str, timeout_seconds: float = 2.0
    ) -> dict[str, dict[str, Any]]:
        """As `request`, with a content for each engine."""
        futures = {engine: self.begin(engine, message_type, content) for engine, content in contents.items()}
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
