"""Ports that are free: one for a rendezvous, several for a controller."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

_FIRST = 20_000  # below are ports that services are known by
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port(address: str) -> int:
    """A TCP port of this machine's address that nobody listens on now."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind((address, 0))
        port: int = listener.getsockname()[1]
        return port


def quiet_ports(address: str, count: int, key: int) -> range | None:
    """Neighbouring ports that are free and that the system gives to nobody who asks for any port.

    Between choosing a port and listening on it, another process may be given the same one. Processes that give different `key`s
    (their pids) try different ports first. None where there are no such ports.
    """
    try:
        blocks = (int(_EPHEMERAL.read_text().split()[0]) - _FIRST) // count
    except (OSError, ValueError):
        return None
    for turn in range(max(0, blocks)):
        first = _FIRST + (key + turn) % blocks * count
        ports = range(first, first + count)
        if _are_free(address, ports):
            return ports
    return None


def _are_free(address: str, ports: range) -> bool:
    with contextlib.ExitStack() as stack:
        try:
            for port in ports:
                stack.enter_context(socket.socket()).bind((address, port))
        except OSError:
            return False
    return True
