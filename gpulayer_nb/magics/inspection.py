"""Shift-Tab in a cell for the ranks: a name that the notebook has not may live on rank 0.

Runs in the kernel. Owns the detour of the kernel's inspect request, which tells a shell the name but not the cell around it.
"""

from __future__ import annotations

from typing import Any

from gpulayer_nb.magics.completion import is_for_ranks


def look_on_ranks_too(kernel: Any) -> None:
    """From now on `kernel` asks rank 0 about names that it does not know; twice is once."""
    own = kernel.do_inspect
    if getattr(own, "asks_ranks", False):
        return

    def do_inspect(code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()) -> Any:
        reply = own(code, cursor_pos, detail_level, omit_sections)
        if not isinstance(reply, dict) or reply.get("found") or not is_for_ranks(code):
            return reply
        from IPython.utils.tokenutil import token_at_cursor

        from gpulayer_nb.api.looking import inspection

        data = inspection(token_at_cursor(code, cursor_pos), detail_level)
        return {**reply, "found": True, "data": data} if data else reply

    do_inspect.asks_ranks = True  # type: ignore[attr-defined]
    kernel.do_inspect = do_inspect
