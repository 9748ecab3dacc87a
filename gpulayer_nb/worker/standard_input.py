"""A connection file that comes over standard input, which then is the lease: when it closes, the worker ends.

Runs in the supervisor, below ssh: nothing has to be copied to the machine before, and nothing is left there.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any

from gpulayer_nb.errors import UsageError

SIGN = "-"  # as `--controller -`


def read_connection() -> dict[str, Any]:
    """The first line, as JSON."""
    line = b""
    while not line.endswith(b"\n") and (piece := os.read(0, 65536)):
        line += piece
    try:
        info: dict[str, Any] = json.loads(line)
    except ValueError:
        raise UsageError(
            "--controller - reads the engines' connection file from standard input as one line, and nothing like it came. "
            "Next: `--controller FILE`."
        ) from None
    return info


def end_when_it_closes(ended: threading.Event) -> None:
    threading.Thread(target=_wait_for_the_end, args=(ended,), name="gpulayer-input", daemon=True).start()


def _wait_for_the_end(ended: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    ended.set()
