"""What the ranks' names are: rank 0 is asked, and has half a second.

Runs in the kernel. Owns the question; without ranks, or without an answer in time, there is simply nothing to tell.
"""

from __future__ import annotations

from typing import Any

from gpulayer_nb.api.current import session
from gpulayer_nb.records import wire

_SECONDS = 0.6


def completions(text: str) -> list[str]:
    """How `text` (names joined by dots) may go on with names of rank 0."""
    answer = session().ask_rank_zero(wire.COMPLETE, {"text": text}, _SECONDS)
    matches: list[str] = answer.get("matches", [])
    return matches


def inspection(name: str, detail_level: int = 0) -> dict[str, Any]:
    """A MIME bundle that describes rank 0's `name`; empty if there is none."""
    answer = session().ask_rank_zero(wire.INSPECT, {"name": name, "detail_level": detail_level}, _SECONDS)
    data: dict[str, Any] = answer.get("data", {})
    return data
