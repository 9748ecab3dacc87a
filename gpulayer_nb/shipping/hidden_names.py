"""Names that are never shipped: IPython's own and Python's.

Runs on both sides. Owns the list. Must not know values.
"""

from __future__ import annotations

import re

_IPYTHON = frozenset(
    [
        "In",
        "Out",
        "get_ipython",
        "exit",
        "quit",
        "open",
        "display",
        "_",
        "__",
        "___",
        "_i",
        "_ii",
        "_iii",
        "_ih",
        "_oh",
        "_dh",
        "_sh",
    ]
)
_HISTORY = re.compile(r"_i?\d+|__\w+__")  # _3 and _i3, and the dunder names of the module


def is_hidden(name: str) -> bool:
    """Whether a name belongs to the interpreter and not to the user."""
    return name in _IPYTHON or _HISTORY.fullmatch(name) is not None
