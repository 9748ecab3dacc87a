"""The TCP connections of this process, and how to cut them.

Runs in each rank's process. gloo has no abort in torch 2.13: what wakes a rank that waits in a collective, and its peers with it,
is that its connections end. Goes when ProcessGroupGloo.abort ends pending work.

gloo forgets a send that it could not write at once when the connection ends, and who waits for that send waits for the time-out
of the group. So no write may fail or stop half-way, here or at a peer, before gloo has seen the end. Connections are cut when
nothing is on their way; at first for reading only; what a peer still sends is taken and thrown away; then it is told the end.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

Sockets = dict[int, str]  # file descriptor → what /proc calls it, "socket:[inode]": tells a reused descriptor

_UNREAD, _UNSENT = 0x541B, 0x894B  # Linux: FIONREAD, SIOCOUTQNSD
_PIECE_BYTES = 1 << 20
_LOOK_SECONDS = 0.004
_QUIET_LOOKS = 3  # in a row: between a read and the answer to it nothing shows
_LAST_LOOKS = 8  # on a busy machine a peer that is to send next waits for its turn
_PROBE_LOOKS = 75  # 0.3 s: who found no room here asks again after 0.2 s, and nobody tells it earlier once reading is shut
SETTLE_SECONDS = 0.8  # a big collective that all have entered goes on to its end; a peer that stands still never takes its part
_DRAIN_SECONDS = 2.0  # one wait for a probe each time that the room was used up
_CLOSING_SECONDS = 0.1  # for gloo to see the end and close its side


def open_sockets() -> Sockets:
    """Every socket this process holds now. Empty where there is no /proc."""
    found: Sockets = {}
    folder = Path("/proc/self/fd")
    if not folder.exists():
        return found
    for entry in os.listdir(folder):
        try:
            link = os.readlink(folder / entry)
        except OSError:
            continue  # closed meanwhile, or the listing's own descriptor
        if link.startswith("socket:"):
            found[int(entry)] = link
    return found


def opened_since(before: Sockets) -> Sockets:
    return {fd: link for fd, link in open_sockets().items() if before.get(fd) != link}


def settle(sockets: Sockets, limit_seconds: float = SETTLE_SECONDS) -> bool:
    """Waits until nothing is on its way on these connections; False if that was not so in time."""
    quiet, deadline = 0, time.monotonic() + limit_seconds
    while quiet < _QUIET_LOOKS:
        waiting = [_waiting_bytes(connection) for connection in _connections(sockets)]
        if not waiting:
            return True
        quiet = 0 if any(waiting) else quiet + 1
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def cut(sockets: Sockets, stay: Sockets | None = None) -> int:
    """Ends the connected TCP sockets among these: whoever reads from them, here or at the other side, sees an end.

    Args:
        stay: those that nobody here closes at their end.

    Returns:
        How many were cut.
    """
    kept = [connection.dup() for connection in _connections(sockets)]  # closed only below: a write to a closed one fails
    if not kept:
        return 0
    moving = any(_waiting_bytes(connection) for connection in kept)
    for connection in kept:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RD)
    closing = {fd: link for fd, link in sockets.items() if (stay or {}).get(fd) != link}
    deadline = time.monotonic() + _CLOSING_SECONDS
    while any(True for _ in _connections(closing)) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS / 4)
    _drain(kept, moving)
    for connection in kept:
        with connection, contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
    return len(kept)


def _drain(kept: list[socket.socket], moving: bool) -> None:
    """Takes what peers still send, so that their writes end; looks longer where something was on its way."""
    looks, quiet = _PROBE_LOOKS if moving else _LAST_LOOKS, 0
    deadline = time.monotonic() + _DRAIN_SECONDS
    while quiet < looks and time.monotonic() < deadline:
        if sum(_throw_away(connection) for connection in kept):
            looks, quiet = _PROBE_LOOKS, 0
        else:
            quiet += 1
            time.sleep(_LOOK_SECONDS)


def _throw_away(connection: socket.socket) -> bool:
    """Whether there was anything."""
    found = False
    with contextlib.suppress(OSError):
        while connection.recv(_PIECE_BYTES, socket.MSG_DONTWAIT):
            found = True
    return found


def _connections(sockets: Sockets) -> Iterator[socket.socket]:
    """The connected TCP sockets among these that are still there, one at a time."""
    for fd, link in sockets.items():
        try:
            if os.readlink(f"/proc/self/fd/{fd}") != link:
                continue  # closed, the descriptor is another's now
            duplicate = socket.socket(fileno=os.dup(fd))
        except OSError:
            continue
        with duplicate:
            if duplicate.family not in (socket.AF_INET, socket.AF_INET6) or duplicate.type != socket.SOCK_STREAM:
                continue
            try:
                duplicate.getpeername()  # a listening socket has no peer and stays
            except OSError:
                continue
            yield duplicate


def _waiting_bytes(connection: socket.socket) -> int:
    """What has come and was not read, and what is to go and was not sent."""
    number = 0
    for request in (_UNREAD, _UNSENT):
        with contextlib.suppress(OSError):
            number += struct.unpack("i", fcntl.ioctl(connection, request, bytes(4)))[0]
    return number
