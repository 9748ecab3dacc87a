"""Clusters that the panel starts on this machine: a controller and one worker per node, which any notebook can use by name.

Runs in the Jupyter server, whose end of each keeper's standard input is the lease: when the server ends, however it ends, the
keeper ends its cluster. Owns the keepers.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from gpulayer_nb.errors import ClusterError
from gpulayer_nb.records.cluster_folder import ClusterFolder

START_SECONDS = 60.0
END_SECONDS = 8.0
_POLL_SECONDS = 0.05


class LocalClusters:
    """Any thread may start and end clusters."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._keepers: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, nodes: int, devices: int, taken: Iterable[str]) -> str:
        """Returns the new cluster's name once its controller answers; its workers join by themselves.

        Raises:
            ClusterError: it does not come up; with the end of its log.
        """
        with self._lock:
            name = free_name({*taken, *self._keepers})
            log = self._root / f"{name}.log"
            log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with log.open("wb") as output:
                keeper = subprocess.Popen(
                    [sys.executable, "-m", "gpulayer_nb.server.keeper", name, str(nodes), str(devices)],
                    stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True,
                )  # fmt: skip
            self._keepers[name] = keeper
        folder = ClusterFolder(self._root / name)
        deadline = time.monotonic() + START_SECONDS
        while not folder.card.exists():
            if keeper.poll() is not None or time.monotonic() > deadline:
                self.end(name)
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-12:])
                raise ClusterError(f"The cluster did not come up. The last lines of its log:\n{tail or '(empty)'}")
            time.sleep(_POLL_SECONDS)
        return name

    def owns(self, name: str) -> bool:
        return name in self._keepers

    def end(self, name: str) -> None:
        """Ends it and waits, at most `END_SECONDS` and a moment."""
        with self._lock:
            keeper = self._keepers.pop(name, None)
        if keeper is None:
            return
        if keeper.stdin is not None:
            keeper.stdin.close()
        try:
            keeper.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            keeper.kill()  # its children die with it
            keeper.wait(1.0)
        (self._root / f"{name}.log").unlink(missing_ok=True)

    def end_all(self) -> None:
        """At the server's end: all at once, without waiting for each in turn."""
        with self._lock:
            keepers, self._keepers = self._keepers, {}
        for keeper in keepers.values():
            if keeper.stdin is not None:
                keeper.stdin.close()
        deadline = time.monotonic() + END_SECONDS
        for name, keeper in keepers.items():
            try:
                keeper.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                keeper.kill()
            (self._root / f"{name}.log").unlink(missing_ok=True)


def free_name(taken: set[str]) -> str:
    """`panel`, `panel-2`, …"""
    number = 1
    while (name := "panel" if number == 1 else f"panel-{number}") in taken:
        number += 1
    return name
