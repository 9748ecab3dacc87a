"""The supervisor's process: `python -m gpulayer_nb.worker --folder F --slots 4 --nodes 2 --devices 2`.

Started by the kernel, whose end of the pipe on standard input is the lease: when it closes, everything here ends.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

from gpulayer_nb.process import adopt_orphans
from gpulayer_nb.records.cluster_folder import ClusterFolder
from gpulayer_nb.worker.supervisor import Supervisor

_END_SECONDS = 30.0


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m gpulayer_nb.worker")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--worker", default="local")
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--devices", type=int, required=True)
    options = parser.parse_args(arguments)
    adopt_orphans()
    supervisor = Supervisor(options.worker, ClusterFolder(options.folder))
    first = {"slots": list(range(options.slots)), "nodes": options.nodes, "devices": options.devices}
    supervisor.start(first, with_controller=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: supervisor.ended.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_when_told, args=(supervisor,), daemon=True).start()
    threading.Thread(target=_end_with_owner, args=(supervisor,), daemon=True).start()
    while not supervisor.ready.wait(timeout=1.0):  # the cores belong to torch's import until then
        pass
    from gpulayer_nb.worker.app import serve

    serve(supervisor)
    supervisor.ended.set()  # ipyparallel has taken SIGTERM over and returns
    threading.Event().wait(_END_SECONDS)  # the thread above ends this process


def _end_with_owner(supervisor: Supervisor) -> None:
    """Standard input closes when the kernel ends, however it ends."""
    while os.read(0, 4096):
        pass
    supervisor.ended.set()


def _end_when_told(supervisor: Supervisor) -> None:
    supervisor.ended.wait()
    supervisor.end()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
