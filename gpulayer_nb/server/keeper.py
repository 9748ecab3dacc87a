"""Keeps one cluster of this machine: `python -m gpulayer_nb.server.keeper NAME NODES DEVICES`.

Runs in a process of its own, started by the Jupyter server, whose end of standard input is the lease. Owns the controller's and
the workers' processes, which it starts by the same commands as a user would; ends when one of them fails.
"""

from __future__ import annotations

import functools
import os
import select
import signal
import subprocess
import sys
import time

from gpulayer_nb.process import die_with_parent
from gpulayer_nb.records.cluster_folder import ClusterFolder, clusters_root

START_SECONDS = 60.0
GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.2


def main(arguments: list[str] | None = None) -> int:
    name, nodes, devices = arguments or sys.argv[1:]
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    folder = ClusterFolder(clusters_root() / name)
    started = [_command("controller", "start", "--name", name)]
    try:
        _wait_for(folder, started[0])
        for node in range(int(nodes)):
            worker = ("--name", f"local-{node}" if int(nodes) > 1 else "local", "--devices", devices)
            started.append(_command("worker", "start", "--controller", str(folder.engine_file), *worker))
        while started[0].poll() is None and not any(child.poll() for child in started):  # 0: a worker that was removed
            if select.select([0], [], [], _POLL_SECONDS)[0] and not os.read(0, 4096):
                return 0
        return 1
    finally:
        _end(started)


def _command(*words: str) -> subprocess.Popen[bytes]:
    """`gpulayer` with these words; it dies with this process, whose main thread starts it."""
    parent = functools.partial(die_with_parent, os.getpid())
    return subprocess.Popen([sys.executable, "-m", "gpulayer_nb", *words], stdin=subprocess.DEVNULL, preexec_fn=parent)


def _wait_for(folder: ClusterFolder, controller: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not folder.card.exists():
        if controller.poll() is not None or time.monotonic() > deadline:
            sys.exit(1)
        time.sleep(_POLL_SECONDS / 4)


def _end(children: list[subprocess.Popen[bytes]]) -> None:
    """Workers first: they end their engines, and the controller is still there to hear of it."""
    for child in reversed(children):
        child.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for child in reversed(children):
        try:
            child.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


if __name__ == "__main__":
    sys.exit(main())
