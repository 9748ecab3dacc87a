"""What a rank says that has only lost another one. Read where failures are recorded and where the first of them is chosen.

Owns the words of gloo, NCCL and the store (torch 2.6–2.13).
"""

from __future__ import annotations

import re

ECHO_TYPES = ("DistBackendError", "DistNetworkError", "DistStoreError")
_ECHO = re.compile(
    r"connection (closed|reset) by peer|broken pipe|connection was likely closed|Application timeout caused pair closure"
    r"|socket (error|closed)|Socket is not connected|recvBytes|sendBytes|Software caused connection abort|Transport endpoint"
    r"|writev|readv|NCCL communicator was aborted|remote process exited|read error|wait timeout",
    re.IGNORECASE,
)


def is_echo_text(message: str) -> bool:
    """Whether an error's message is that of a broken connection between ranks."""
    return _ECHO.search(message) is not None
