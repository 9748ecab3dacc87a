"""Runs a command on a host: `python -I -S enter.py PID FOLDER COMMAND...`, where PID is the host's first process.

A program of its own, standard library only. It joins the host's namespaces, passes signals on, ends the command when it is killed
itself, and ends as the command ends.
"""

import ctypes
import os
import signal
import sys

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def join(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptors = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in ("net", "uts", "ipc", "pid", "mnt")]
    for descriptor in descriptors:
        if libc.setns(descriptor, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        os.close(descriptor)


def main() -> None:
    pid, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    join(pid)
    os.chdir(folder)
    child = os.fork()  # only children belong to the process namespace that was joined
    if child == 0:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.setsid()  # a signal to our group reaches the command once: from us
        try:
            os.execvp(command[0], command)
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
            os._exit(127)
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os.kill(child, number))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
