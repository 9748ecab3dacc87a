"""The session of this process: made at its first use, ended with the process.

Lives in the kernel (or a plain script). Owns the one link between the user's namespace and the ranks.
"""

from __future__ import annotations

import atexit
import sys
from functools import cache
from typing import Any

from gpulayer_nb.client.session import Session


def namespace() -> dict[str, Any]:
    """The notebook's names; a plain script's are those of its `__main__`."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    found: dict[str, Any] = shell.user_ns if shell is not None else sys.modules["__main__"].__dict__
    return found


@cache
def session() -> Session:
    made = Session(namespace())
    atexit.register(made.down)
    return made
