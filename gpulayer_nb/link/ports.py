"""Ports that are free and stay so: one for a rendezvous, several for a controller."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path

_FIRST = 20_000  # below are ports that services are known by
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


class HeldPort:
    """A TCP port for a program that is only just starting; until this is closed the system gives it to nobody else.

    A program may listen on it if it asks for SO_REUSEADDR, as servers do: torch's store, zmq. Others are refused, and whoever
    asks for any port is given another one.
    """

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(_family(address), socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((address, 0))
        except OSError:
            self.close()
            raise
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()


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
