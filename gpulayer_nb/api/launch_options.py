"""`Trainer(launch_options={…})`: the ranks' environment and the limit of a collective. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpulayer_nb.errors import UsageError

_LAUNCH_OPTIONS = ("env", "timeout")


def checked_launch_options(given: Mapping[str, Any] | None) -> dict[str, Any]:
    options = dict(given or {})
    unknown = [name for name in options if name not in _LAUNCH_OPTIONS]
    if unknown:
        raise UsageError(
            f"launch_options has no {', '.join(map(repr, unknown))}; it takes {' and '.join(map(repr, _LAUNCH_OPTIONS))}."
        )
    return options
