"""Takes away what earlier clusters of this user left behind.

Runs in the kernel before a cluster starts. Owns the rule: a process is ended only if its pid and its start time are the recorded
ones and its owner is gone; never by name.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from gpulayer_nb.process import is_running, kill_if_same, start_ticks
from gpulayer_nb.records.cluster_folder import ClusterFolder
from gpulayer_nb.records.worker_state import WorkerState


def sweep(root: Path) -> list[str]:
    """Ends the left-over clusters under `root`; returns their ids."""
    if not root.is_dir():
        return []
    gone = []
    for path in root.iterdir():
        folder = ClusterFolder(path)
        owners = folder.owners()
        if owners is None or any(is_running(pid, ticks) for pid, ticks in owners):
            continue
        _end(folder)
        gone.append(folder.cluster_id)
    return gone


def _end(folder: ClusterFolder) -> None:
    state = WorkerState.read(folder.state)
    if state is not None:
        if start_ticks(state.pid) is not None and _is_supervisor_of(state.pid, folder):
            kill_if_same(state.pid, start_ticks(state.pid))
        for pid, ticks in state.children:
            kill_if_same(pid, ticks)
        for engine in state.engines:
            kill_if_same(engine.pid, engine.ticks)
    shutil.rmtree(folder.blobs, ignore_errors=True)
    shutil.rmtree(folder.path, ignore_errors=True)


def _is_supervisor_of(pid: int, folder: ClusterFolder) -> bool:
    """The supervisor names its folder on its command line."""
    try:
        return str(folder.path).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
