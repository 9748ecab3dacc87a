"""Becomes a script's process that cannot outlive its torchrun agent: `rank_start.py KEEPER SCRIPT ARGUMENTS`.

Runs by its path in an interpreter without site packages, so it costs some milliseconds; imports nothing of ours. The promise to
die with the parent survives the `exec`, so an agent that is killed takes its ranks with it.
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG, _SIGKILL = 1, 9  # linux/prctl.h; importing signal would cost more than all of this


def main(keeper: int, script: str, arguments: list[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        if os.getppid() in (1, keeper):  # the agent went before the promise was made
            os._exit(1)
    os.execv(sys.executable, [sys.executable, "-u", script, *arguments])  # as torchrun itself starts a script


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
