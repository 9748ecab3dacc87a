"""A controller that belongs to whoever started it: `python -m gpulayer_nb.worker.leased_controller --name N --ip A`.

Runs as a process of its own, started by the kernel, whose end of the pipe on standard input is the lease. Says "up" once on
standard output, or on standard error why it cannot be.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading

from gpulayer_nb.errors import GpuLayerError
from gpulayer_nb.worker.public_controller import PublicController


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gpulayer_nb.worker.leased_controller")
    parser.add_argument("--name", required=True)
    parser.add_argument("--ip", required=True)
    parser.add_argument("--ports")
    options = parser.parse_args(arguments)
    try:
        controller = PublicController(options.name, options.ip, ports=options.ports)
        threading.Thread(target=_end_with_owner, args=(controller,), daemon=True).start()
        controller.start()
    except GpuLayerError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    try:
        sys.stdout.write("up\n")
        sys.stdout.flush()
        return controller.wait()
    finally:
        controller.end()


def _end_with_owner(controller: PublicController) -> None:
    """Standard input closes when the kernel ends, however it ends."""
    while os.read(0, 4096):
        pass
    controller.ended.set()


if __name__ == "__main__":
    sys.exit(main())
