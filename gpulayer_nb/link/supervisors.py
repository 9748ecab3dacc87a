"""Asking workers: each is spoken for by its supervisor, an ipyparallel engine without a device. Reads a connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpulayer_nb.link.connection import Connection
from gpulayer_nb.records import wire

ASK_SECONDS = 2.0


def supervisors_of(connection: Connection) -> dict[str, str]:
    """ipyparallel uuid of every worker's supervisor, by the worker's key."""
    found = {}
    for engine in connection.engines():
        key = wire.worker_of(engine)
        if key is not None:
            found[key] = engine
    return found


def ask_workers(
    connection: Connection, contents: Mapping[str, Mapping[str, Any]], request: str, seconds: float = ASK_SECONDS
) -> dict[str, dict[str, Any]]:
    """One request to several workers; contents and replies by their keys, without those that did not answer in time."""
    supervisors = supervisors_of(connection)
    asked = {supervisors[key]: content for key, content in contents.items() if key in supervisors}
    replies = connection.request_each(asked, request, seconds)
    return {key: replies[supervisors[key]] for key in contents if supervisors.get(key) in replies}


def refusal(reply: Mapping[str, Any] | None) -> str:
    """Why a worker did not do what it was asked; "" if it did."""
    if reply is None:
        return "does not answer"
    return str(reply.get("refused", ""))
