"""By which name the Jupyter server knows this kernel.

Runs in the kernel. Owns the reading of the connection file's name. Must not know who asks.
"""

from __future__ import annotations

import re

_NAME = re.compile(r"kernel-([0-9a-fA-F-]{36})\.json$")


def kernel_id() -> str:
    """The id in the server's API; "" for a kernel that no server started."""
    from ipykernel.connect import get_connection_file

    try:
        found = _NAME.search(get_connection_file())
    except RuntimeError:  # no kernel in this process
        return ""
    return found.group(1) if found else ""
