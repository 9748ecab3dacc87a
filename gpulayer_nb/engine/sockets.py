"""The TCP connections of this process, and how to cut them.

Runs in each rank's process. gloo has no abort in torch 2.13: `shutdown(2)` on its connections is what wakes a rank that waits
in a collective, and its peers with it. Goes when ProcessGroupGloo.abort ends pending work.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

Sockets = dict[int, str]  # file descriptor → what /proc calls it, "socket:[inode]": tells a reused descriptor


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


def cut(sockets: Sockets) -> int:
    """Shuts the connected TCP sockets among these in both directions; returns how many."""
    number = 0
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
                duplicate.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
            number += 1
    return number
