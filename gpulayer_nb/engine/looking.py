"""Answers what a front end asks about a rank's names: how do they go on, what are they.

Runs in each rank's process, on the control thread. Owns a short time limit: a name's own code (a property, a `__dir__`) may take
for ever, and the control thread has to stay free for a stop.
"""

from __future__ import annotations

import rlcompleter
import threading
from collections.abc import Callable
from typing import Any

LIMIT_SECONDS = 0.4
MOST = 500  # names in one answer


def complete(namespace: dict[str, Any], text: str) -> dict[str, Any]:
    """`{"matches": [...]}`: how a name, or names joined by dots, may go on."""

    def look() -> dict[str, Any]:
        completer = rlcompleter.Completer(namespace)
        found: dict[str, None] = {}
        for state in range(MOST):
            match = completer.complete(text, state)
            if match is None:
                break
            found[str(match).rstrip("( ")] = None
        return {"matches": list(found)}

    return _in_time(look)


def inspect(shell: Any, name: str, detail_level: int) -> dict[str, Any]:
    """`{"data": a MIME bundle}` of what `name?` would show; nothing for a name that is not there."""

    def look() -> dict[str, Any]:
        try:
            return {"data": shell.object_inspect_mime(name, detail_level=detail_level)}
        except KeyError:
            return {}

    return _in_time(look)


def _in_time(look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    answers: list[dict[str, Any]] = []

    def work() -> None:
        try:
            answers.append(look())
        except Exception:  # noqa: BLE001  the object's own code may raise anything; then there is nothing to tell
            answers.append({})

    thread = threading.Thread(target=work, name="gpulayer-look", daemon=True)
    thread.start()
    thread.join(LIMIT_SECONDS)
    return answers[0] if answers else {}
