"""ipyparallel's connection files. Owns two traps: they are not written in one go, and "every address" is no address to dial."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpulayer_nb.plan.addresses import ANY, bracketed, endpoint


def read_if_whole(path: Path) -> dict[str, Any] | None:
    """The file's content, or None while it is missing or only half written."""
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return content


def controller_address(info: dict[str, Any]) -> str:
    """Where the controller is dialled: its own name if it listens on every address."""
    host = str(info["interface"]).partition("://")[2].strip("[]")
    return str(info["location"]) if host in ANY else host


def is_ipv6(info: dict[str, Any]) -> bool:
    """Whether the controller is dialled at an IPv6 address."""
    return ":" in controller_address(info)


def url_of(info: dict[str, Any], name: str) -> str:
    """The controller's socket of this name, for example `registration`."""
    protocol = str(info["interface"]).partition("://")[0]
    return f"{protocol}://{endpoint(controller_address(info), info[name])}"


def with_address(info: dict[str, Any]) -> dict[str, Any]:
    """The same with the address to dial in place of "every address"."""
    protocol = str(info["interface"]).partition("://")[0]
    return {**info, "interface": f"{protocol}://{bracketed(controller_address(info))}"}
