"""Engines of several workers that are one client's: taken together, renewed while it lives, released by it.

Runs in the process that drives runs on them. When the renewal stays away the workers end the engines by themselves.
"""

from __future__ import annotations

import getpass
import os
import socket
import threading
from collections.abc import Mapping, Sequence

from gpulayer_nb.link.connection import Connection
from gpulayer_nb.link.supervisors import ask_workers, refusal, supervisors_of
from gpulayer_nb.records import wire

_RENEW_SECONDS = 2.0


class Claim:
    """One client's, by its token. `keys` are the workers it has engines of."""

    def __init__(self, connection: Connection, token: str, keys: Sequence[str] = ()) -> None:
        self._connection, self.token, self.keys = connection, token, tuple(keys)
        self._left = threading.Event()
        threading.Thread(target=self._renew, name="gpulayer-claim", daemon=True).start()

    def take(self, slots: Mapping[str, Sequence[int]]) -> dict[str, str]:
        """Takes these slots of these workers; the workers that refuse and why. Then nothing is taken."""
        by = f"{getpass.getuser()}@{socket.gethostname()}, process {os.getpid()}"
        contents = {key: {"token": self.token, "by": by, "slots": list(of_one)} for key, of_one in slots.items()}
        replies = ask_workers(self._connection, contents, wire.CLAIM)
        self.keys = tuple(slots)
        refused = {key: why for key in slots if (why := refusal(replies.get(key)))}
        if refused:
            self.release()
        return refused

    def holds(self) -> bool:
        """Whether the workers are all there and still this client's."""
        replies = ask_workers(self._connection, {key: {"token": self.token} for key in self.keys}, wire.RENEW)
        return all(not refusal(replies.get(key)) for key in self.keys)

    def release(self) -> None:
        """Ends the engines; others may have the workers."""
        keys, self.keys = self.keys, ()
        ask_workers(self._connection, {key: {"token": self.token} for key in keys}, wire.RELEASE)

    def let_go(self) -> None:
        """Another process renews it from now on."""
        self._left.set()
        self.keys = ()

    def end(self) -> None:
        if self.keys:
            self.release()
        self._left.set()

    def _renew(self) -> None:
        while not self._left.wait(_RENEW_SECONDS):
            if not self.keys:
                continue
            supervisors = supervisors_of(self._connection)
            for key in self.keys:
                if key in supervisors:
                    self._connection.begin(supervisors[key], wire.RENEW, {"token": self.token})
