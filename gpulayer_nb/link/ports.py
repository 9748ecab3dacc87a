"""Ports that are free: one for a rendezvous, several for a controller."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path

_FIRST = 20_000  # below are ports that services are known by
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port(address: str) -> int:
    """A TCP port of this machine's address that nobody listens on now."""
    with socket.socket(_family(address), socket.SOCK_STREAM) as listener:
        listener.bind((address, 0))
        port: int = listener.getsockname()[1]
        return port


def quiet_ports(address: str, count: int, key: int) -> range | None:
    """Neighbouring ports that are free and that the system gives to nobody who asks for any port.

    Between choosing a port and listening on it, another process may be given the same one. Processes that give different `key`s
    (their pids) try different ports first. None where there are no such ports.
    """
    blocks = (ephemeral_range()[0] - _FIRST) // count
    for turn in range(max(0, blocks)):
        first = _FIRST + (key + turn) % blocks * count
        ports = range(first, first + count)
        if not taken_ports(address, ports):
            return ports
    return None


def taken_ports(address: str, ports: Iterable[int]) -> dict[int, str]:
    """Which of these nobody could listen on now, and what the system says. An empty address stands for all of this machine's."""
    taken = {}
    for port in ports:
        with socket.socket(_family(address), socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as zmq does
            try:
                probe.bind((address, port))
            except OSError as error:
                taken[port] = error.strerror or str(error)
    return taken


def ephemeral_range() -> tuple[int, int]:
    """The first and the last of the ports that the system gives to whoever asks for any: gloo, NCCL, the store."""
    try:
        low, high = _EPHEMERAL.read_text().split()
        return int(low), int(high)
    except (OSError, ValueError):
        return 49152, 65535  # IANA's


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
