"""ipyparallel's client without its printing.

Imported late: ipyparallel takes most of a second to import, which the engines' start hides.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any

import ipyparallel


class QuietClient(ipyparallel.Client):  # type: ignore[misc]  # ipyparallel has no type hints
    """ipyparallel prints replies that come after their engine was given up into whatever cell runs then."""

    def _handle_apply_reply(self, msg: Any) -> None:
        with contextlib.redirect_stdout(io.StringIO()) if _is_stale(self, msg) else contextlib.nullcontext():
            super()._handle_apply_reply(msg)


def _is_stale(client: Any, msg: Any) -> bool:
    return msg["parent_header"].get("msg_id") not in client.outstanding
