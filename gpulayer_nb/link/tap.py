"""Reads what engines publish, straight from the controller's iopub port.

Runs on a thread of its own, in the kernel, a detached run's process and the Jupyter server. Owns one SUB socket; hands every
message on as it came. An ipyparallel client drops messages of calls that are over or not its own; this does not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from gpulayer_nb.link.ipv6 import allow_ipv6
from gpulayer_nb.records.connection_file import url_of

TOPICS = (b"gpulayer.records", b"engine")


class Tap(threading.Thread):
    """Calls `on_message(topic, message)` for every message of our topics and every engine's output, in order per engine."""

    def __init__(
        self,
        info: dict[str, Any],
        on_message: Callable[[str, dict[str, Any]], None],
        topics: tuple[bytes, ...] = TOPICS,
    ) -> None:
        super().__init__(name="gpulayer-tap", daemon=True)
        import zmq  # late, like the next: plain IPython has not loaded them, and loading the extension must not wait for them
        from jupyter_client.session import Session

        self._session = Session(
            key=info["key"].encode(), signature_scheme=info["signature_scheme"], packer=info["pack"], unpacker=info["unpack"]
        )
        self._on_message = on_message
        self._ended = threading.Event()
        self._socket: Any = zmq.Context.instance().socket(zmq.SUB)
        self._socket.setsockopt(zmq.RCVHWM, 0)  # a burst waits in memory; nothing is dropped
        self._socket.setsockopt(zmq.LINGER, 0)
        if info.get("curve_serverkey"):
            public, secret = zmq.curve_keypair()
            self._socket.setsockopt(zmq.CURVE_PUBLICKEY, public)
            self._socket.setsockopt(zmq.CURVE_SECRETKEY, secret)
            self._socket.setsockopt(zmq.CURVE_SERVERKEY, info["curve_serverkey"].encode())
        for topic in topics:
            self._socket.subscribe(topic)
        allow_ipv6(self._socket, info)
        self._socket.connect(url_of(info, "iopub"))

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                if self._socket.poll(200):
                    self._read()
        finally:
            self._socket.close()

    def _read(self) -> None:
        topics, frames = self._session.feed_identities(self._socket.recv_multipart())
        try:
            message = self._session.deserialize(frames)
        except ValueError:
            return  # signed with another key: not from this cluster
        self._on_message(topics[0].decode() if topics else "", message)

    def end(self) -> None:
        self._ended.set()
