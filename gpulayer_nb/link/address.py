"""Which of its addresses this machine shows to another one. Asked by workers, and by whoever starts a controller for them."""

from __future__ import annotations

import socket


def address_towards(host: str) -> str | None:
    """The address this machine sends from when it talks to `host`; None if there is no way. Nothing is sent to find out."""
    try:
        family, _, _, _, place = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(place)
            address: str = probe.getsockname()[0]
    except OSError:
        return None
    return address
