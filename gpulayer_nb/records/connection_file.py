"""ipyparallel's connection files. Owns the one trap: they are not written in one go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_if_whole(path: Path) -> dict[str, Any] | None:
    """The file's content, or None while it is missing or only half written."""
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return content
