"""The engine as an ipyparallel application: who it is, how it reports, how it ends.

Runs in each rank's process. Owns the identity and the kernel class. Must not know runs.
"""

from __future__ import annotations

import functools
import json
import os
import socket
from pathlib import Path
from typing import Any

import ipyparallel.engine.app as engine_app
from ipykernel.iostream import IOPubThread
from traitlets import Int, Unicode, default

from gpulayer_nb.engine.kernel import RankKernel
from gpulayer_nb.engine.runtime import Runtime
from gpulayer_nb.link.ipv6 import allow_ipv6_here
from gpulayer_nb.records.connection_file import is_ipv6
from gpulayer_nb.records.wire import EngineIdentity


class Engine(engine_app.IPEngine):  # type: ignore[misc]  # ipyparallel has no type hints
    """IPEngine with our identity in its uuid, our kernel, and a clean exit."""

    worker_name = Unicode("local")
    slot = Int(0)
    report_fd = Int(-1)  # where "registered" is written for the supervisor; -1: nobody listens

    @default("ident")
    def _default_ident(self) -> str:
        return EngineIdentity(self.worker_name, socket.gethostname(), self.slot, os.getpid()).new_uuid()

    async def complete_registration(self, msg: Any, connect: Any, maybe_tunnel: Any) -> None:
        await super().complete_registration(msg, connect, maybe_tunnel)
        self.kernel.runtime = Runtime(self.kernel)
        if self.report_fd >= 0:
            line = json.dumps({"event": "registered", "slot": self.slot, "pid": os.getpid(), "id": self.id, "uuid": self.ident})
            os.write(self.report_fd, line.encode() + b"\n")

    def start(self) -> None:
        try:
            super().start()
        except RuntimeError as error:
            # ipyparallel 9.2 with ipykernel 7 raises this on every SIGTERM; goes when ipyparallel awaits kernel.stop
            if "Event loop stopped" not in str(error):
                raise


def adapt_ipyparallel() -> None:
    """Changes what IPEngine offers no other way to change: globals of its module."""
    engine_app.Kernel = RankKernel
    # While ipyparallel 9.2 turns the streams over it prints its log handlers, into what becomes the first cell's output.
    engine_app.print = lambda *_, **__: None
    # With the pipe, what forked loader workers print arrives too. IPEngine makes the thread without it.
    engine_app.IOPubThread = functools.partial(IOPubThread, pipe=True)


def launch(*, connection_file: str, folder: str, worker: str, slot: int, report_fd: int = -1) -> None:
    """Runs an engine in this process until it is told to end."""
    adapt_ipyparallel()
    if is_ipv6(json.loads(Path(connection_file).read_text())):
        allow_ipv6_here()
    Engine.launch_instance(
        argv=[
            f"--file={connection_file}",
            f"--profile-dir={folder}",
            "--IPEngine.timeout=60",  # seconds to wait for the controller's answer; 5 is too little on a busy machine
            "--IPEngine.enable_nanny=False",  # the worker's supervisor watches instead
            "--HistoryManager.enabled=False",  # the notebook has it; here nobody reads the data base
            "--log-level=40",
        ],
        worker_name=worker,
        slot=slot,
        report_fd=report_fd,
    )
