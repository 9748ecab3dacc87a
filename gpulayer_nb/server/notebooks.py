"""Which notebook a kernel's process belongs to: the panel calls clusters and runs by their notebooks' names.

Runs on the Jupyter server's event loop, asked from worker threads. Reads the server's own tables; guesses nothing.
"""

from __future__ import annotations

import time
from typing import Any

from jupyter_core.utils import ensure_async

PERIOD_SECONDS = 5.0  # a notebook is opened less often


class Notebooks:
    """`serverapp` is Jupyter's; only its kernels and their sessions are looked at."""

    def __init__(self, serverapp: Any) -> None:
        self._server = serverapp
        self._paths: dict[int, str] = {}
        self._read: float | None = None

    def of_kernel(self, pid: int) -> str | None:
        """Path of the notebook whose kernel has this pid; None if it is none of this server's."""
        return self._paths.get(pid)

    async def refresh(self) -> None:
        now = time.monotonic()
        if self._read is not None and now - self._read < PERIOD_SECONDS:
            return
        self._read = now
        kernels, paths = self._server.kernel_manager, dict[int, str]()
        for session in await ensure_async(self._server.session_manager.list_sessions()):
            try:
                provisioner = kernels.get_kernel(session["kernel"]["id"]).provisioner
            except (KeyError, TypeError):
                continue  # it has just ended
            pid = getattr(provisioner, "pid", None)
            if isinstance(pid, int):
                paths[pid] = str(session["path"])
        self._paths = paths
