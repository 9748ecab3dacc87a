"""This machine's network as the system tells it: its interfaces."""

from __future__ import annotations

import socket

import psutil


def interfaces() -> dict[str, list[str]]:
    """The addresses of every interface, IPv4 first; a link-local IPv6 address is of no use to another machine and left out."""
    found: dict[str, list[str]] = {}
    for name, addresses in psutil.net_if_addrs().items():
        four = [a.address for a in addresses if a.family == socket.AF_INET]
        six = [a.address for a in addresses if a.family == socket.AF_INET6 and not a.address.startswith("fe80")]
        found[name] = four + six
    return found
