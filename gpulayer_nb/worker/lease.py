"""The engines' lease on the controller: without its heartbeats for a while, the worker ends.

Runs in the supervisor on a thread of its own, which waits on a socket of its own: engines blocked in a collective do not matter.
The limit is below the hub's own patience, so whoever the hub has given up on is dead already: no run goes on with ranks that
nobody can reach, and none comes back from the grave holding a GPU.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import zmq

from gpulayer_nb.link.ipv6 import allow_ipv6
from gpulayer_nb.records.connection_file import url_of

SECONDS = 6.0  # the controller beats twice a second and gives an engine up after 7; see worker/controller.py


class Lease(threading.Thread):
    """Calls `on_end(why)` once, when the controller has been silent too long or this process stood still too long."""

    def __init__(self, info: dict[str, Any], on_end: Callable[[str], None], seconds: float = SECONDS) -> None:
        super().__init__(name="gpulayer-lease", daemon=True)
        self._info, self._on_end, self._seconds = info, on_end, seconds

    def run(self) -> None:
        socket: Any = zmq.Context.instance().socket(zmq.SUB)
        socket.linger = 0
        socket.subscribe(b"")
        if self._info.get("curve_serverkey"):
            socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
            socket.curve_serverkey = self._info["curve_serverkey"].encode()
        allow_ipv6(socket, self._info)
        socket.connect(url_of(self._info, "hb_ping"))
        heard = looked = time.monotonic()
        while True:
            beat = socket.poll(250)
            now = time.monotonic()
            if now - looked > self._seconds:  # stopped or suspended: the hub has given us up meanwhile
                self._on_end(f"this worker stood still for {now - looked:.0f} s, so the controller has given it up")
                return
            looked = now
            if beat:
                while socket.poll(0):
                    socket.recv_multipart()
                heard = now
            elif now - heard > self._seconds:
                where = url_of(self._info, "registration").partition("://")[2]
                self._on_end(
                    f"the controller at {where} has been silent for {now - heard:.0f} s: it ended, or the network is cut"
                )
                return
