"""Whether workers reach each other: a port that answers with a word, and a try of several such ports at once.

Runs in the supervisor. The port is one of the range that gloo, NCCL and the store take theirs from, so what a firewall does to
it, it does to them.
"""

from __future__ import annotations

import errno
import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

_TOKEN_BYTES = 32


@dataclass(frozen=True)
class Target:
    """A port that should answer with `token`."""

    name: str
    address: str
    port: int
    token: str


class ProbePort:
    """Listens on the advertised address as long as the worker lives.

    Raises:
        OSError: the address is none of this machine.
    """

    def __init__(self, address: str) -> None:
        self.token = secrets.token_hex(_TOKEN_BYTES // 2)
        family, kind, _, _, place = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        self._socket = socket.socket(family, kind)
        self._socket.bind(place)
        self._socket.listen(256)
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, name="gpulayer-probe", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._socket.accept()
            except OSError:
                return
            try:
                caller.sendall(self.token.encode())  # fits the send buffer: never waits
            except OSError:
                continue  # the caller has gone
            finally:
                caller.close()

    def close(self) -> None:
        self._socket.close()


@dataclass
class _Try:
    target: Target
    socket: socket.socket
    heard: bytes = b""


@dataclass
class _Outcome:
    failed: dict[str, str] = field(default_factory=dict)


def probe(targets: Sequence[Target], seconds: float) -> dict[str, str]:
    """Connects to all at once and reads their words; name → what went wrong, without those that answered."""
    outcome = _Outcome()
    with selectors.DefaultSelector() as selector:
        for target in targets:
            _begin(target, selector, outcome)
        deadline = time.monotonic() + seconds
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                _go_on(key.data, selector, outcome)
        for key in list(selector.get_map().values()):
            _end(key.data, selector, outcome, f"no answer in {seconds:.0f} s")
    return outcome.failed


def _begin(target: Target, selector: selectors.BaseSelector, outcome: _Outcome) -> None:
    try:
        family, kind, _, _, place = socket.getaddrinfo(target.address, target.port, type=socket.SOCK_STREAM)[0]
        end = socket.socket(family, kind)
    except OSError as error:
        outcome.failed[target.name] = str(error)
        return
    end.setblocking(False)
    code = end.connect_ex(place)
    if code not in (0, errno.EINPROGRESS):
        end.close()
        outcome.failed[target.name] = os.strerror(code)
        return
    selector.register(end, selectors.EVENT_READ, _Try(target, end))


def _go_on(attempt: _Try, selector: selectors.BaseSelector, outcome: _Outcome) -> None:
    try:
        got = attempt.socket.recv(_TOKEN_BYTES)
    except BlockingIOError:
        return
    except OSError as error:
        _end(attempt, selector, outcome, error.strerror or str(error))
        return
    attempt.heard += got
    if attempt.heard == attempt.target.token.encode():
        _end(attempt, selector, outcome, None)
    elif not got or len(attempt.heard) >= _TOKEN_BYTES:
        _end(attempt, selector, outcome, "something else answers there")


def _end(attempt: _Try, selector: selectors.BaseSelector, outcome: _Outcome, failure: str | None) -> None:
    selector.unregister(attempt.socket)
    attempt.socket.close()
    if failure is not None:
        outcome.failed[attempt.target.name] = failure
