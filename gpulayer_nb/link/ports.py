"""A port for a rendezvous. Asks the operating system."""

from __future__ import annotations

import socket


def free_port(address: str) -> int:
    """A TCP port of this machine's address that nobody listens on now."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind((address, 0))
        port: int = listener.getsockname()[1]
        return port
