"""A controller of this notebook's own, near it, that workers of other machines may join.

Runs in the kernel. Owns the controller's process, whose standard input is the lease: it ends with the kernel, however that ends.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from gpulayer_nb.errors import ClusterError
from gpulayer_nb.records.cluster_folder import ClusterFolder, clusters_root
from gpulayer_nb.records.connection_file import read_if_whole, with_address

_END_SECONDS = 10.0


class OwnController:
    def __init__(self, name: str, address: str, ports: str | None) -> None:
        self.folder = ClusterFolder(clusters_root() / name)
        self._command = [
            sys.executable, "-m", "gpulayer_nb.worker.leased_controller", f"--name={name}", f"--ip={address}",
            *([f"--ports={ports}"] if ports else []),
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> dict[str, Any]:
        """The engines' connection file once the controller answers.

        Raises:
            ClusterError: it does not come up; says why.
        """
        running = self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        word = running.stdout.readline() if running.stdout else b""  # it has a time limit of its own
        if word != b"up\n":
            said = running.stderr.read().decode(errors="replace").strip() if running.stderr else ""
            self.end()
            raise ClusterError(said or "The controller did not come up.")
        info = read_if_whole(self.folder.engine_file)
        if info is None:
            self.end()
            raise ClusterError(f"The controller has ended. Its log: {self.folder.logs / 'controller.log'}")
        return with_address(info)

    @property
    def is_up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def lease(self) -> int:
        """File descriptor that keeps the controller alive as long as any process holds it open."""
        if self._process is None or self._process.stdin is None:
            raise ClusterError("The controller has ended. Next: `%gpulayer up` again.")
        return self._process.stdin.fileno()

    def let_go(self) -> None:
        """Another process holds the lease now: the controller is no longer ours to end."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None

    def end(self) -> None:
        running, self._process = self._process, None
        if running is None:
            return
        if running.stdin is not None:
            running.stdin.close()  # the lease ends
        try:
            running.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait(5.0)
        for stream in (running.stdout, running.stderr):
            if stream is not None:
                stream.close()
