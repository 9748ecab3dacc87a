"""A real Jupyter kernel in a folder of its own, driven as a front end does: execute requests, outputs read as they come."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

HERE = Path(__file__).parent
TIMEOUT_SECONDS = 300


class Kernel:
    """Runs cells. An error in a cell ends the benchmark with the cell's own traceback."""

    def __init__(self, client: BlockingKernelClient, pid: int) -> None:
        self._client, self.pid = client, pid

    def run_to_any_end(self, cell: str) -> bool:
        """Run one cell; True if it ended without an error."""
        reply = self._client.execute_interactive(cell, timeout=TIMEOUT_SECONDS, output_hook=lambda message: None)
        return bool(reply["content"]["status"] == "ok")

    def run(self, cell: str, limit_seconds: float = TIMEOUT_SECONDS) -> None:
        """Run one cell to its end."""
        outputs: list[dict[str, Any]] = []
        reply = self._client.execute_interactive(cell, timeout=limit_seconds, output_hook=outputs.append)
        if reply["content"]["status"] != "ok":
            raise SystemExit("\n".join(reply["content"].get("traceback", [])) or f"cell was not run: {reply['content']}")


@contextmanager
def fresh_kernel(extra: Mapping[str, str] | None = None) -> Iterator[Kernel]:
    """A kernel that has run nothing yet; when done, its cluster is taken down and the kernel is shut down.

    Args:
        extra: environment variables.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1", "IPYTHONDIR": folder, **(extra or {})}
        manager = KernelManager(kernel_name="python3")
        manager.start_kernel(cwd=folder, env=environment)
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=60)
            kernel = Kernel(client, manager.provisioner.pid)
            yield kernel
            kernel.run("%gpulayer down")
        finally:
            client.stop_channels()
            manager.shutdown_kernel()
