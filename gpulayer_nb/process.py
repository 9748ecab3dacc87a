"""What the operating system promises about our processes: who ends with whom, who is still the one we started.

Used by supervisors, zygotes and the kernel. Linux has all of it; elsewhere the promises that are missing are no-ops.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def die_with_parent(parent_pid: int) -> None:
    """This process is killed as soon as the thread that started it ends.

    Args:
        parent_pid: the parent as it was before the fork. If it is gone already, this process ends at once: a parent that
            was killed between its fork and this call would leave an orphan that nobody knows.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def forks_die_with_us() -> None:
    """So does every process that is forked from now on, here or in one of them, whoever forks it."""
    forking = os.getpid()

    def before() -> None:
        nonlocal forking
        forking = os.getpid()

    os.register_at_fork(before=before, after_in_child=lambda: die_with_parent(forking))


def adopt_orphans() -> None:
    """Processes orphaned below this one become its children instead of init's."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if it is gone or only waits to be reaped.

    A pid together with this number names one process for ever: pids are reused. Zero where there is no /proc.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        if sys.platform == "linux":
            return None
        return 0 if _exists(pid) else None
    except ProcessLookupError:
        return None
    fields = text.rpartition(")")[2].split()  # the name may hold spaces and brackets
    return None if fields[0] in "ZX" else int(fields[19])


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def is_running(pid: int, ticks: int | None) -> bool:
    """Whether the very process that had these start ticks still runs."""
    return ticks is not None and start_ticks(pid) == ticks


def kill_if_same(pid: int, ticks: int | None) -> bool:
    """SIGKILL for exactly the process that was recorded; never for another one that got its pid."""
    if not is_running(pid, ticks):
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def children_of(pid: int) -> list[int]:
    """Direct and indirect child processes, parents first."""
    found = []
    for child in _direct_children(pid):
        found.append(child)
        found.extend(children_of(child))
    return found


def _direct_children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return found
    for task in tasks:
        try:
            found += [int(word) for word in (task / "children").read_text().split()]
        except OSError:
            continue  # the thread has just ended
    return found
