"""The OpenAPI description of the requests, shipped as `openapi.json` beside this file."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def description() -> dict[str, Any]:
    text = Path(__file__).with_name("openapi.json").read_text()
    content: dict[str, Any] = json.loads(text)
    return content
