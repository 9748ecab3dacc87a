"""Imports torch once and forks this worker's engines, which share its pages.

Runs as a single-threaded child of the worker's supervisor. Reads one JSON command a line, writes one JSON event a line.
Must not know clusters; where a fork is not safe the supervisor starts engines one by one instead.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpulayer_nb.no_debugger import leave_debugger_out
from gpulayer_nb.process import die_with_parent
from gpulayer_nb.records.connection_file import read_if_whole

_OF_A_SHELL = ("IPython.core.completerlib", "IPython.core.oinspect", "tornado.platform.asyncio")  # imported when one is made
_IMPORT_THRESHOLDS = (5000, 10, 1000)  # of the garbage collector: imports leave little garbage, and looking for it took a tenth


def _preload() -> dict[str, Any]:
    """Imports what every rank needs; returns what this machine offers. torch._dynamo is what the first DDP() would import."""
    leave_debugger_out()
    for name in _OF_A_SHELL:
        importlib.import_module(name)
    import torch
    import torch._dynamo
    import torch.distributed
    import torch.nn.parallel
    import torch.optim
    import torch.utils.data

    import gpulayer_nb.engine.app
    import gpulayer_nb.train.fit  # noqa: F401  ranks need it at their first fit

    backends = [name for name, there in (("gloo", True), ("nccl", torch.distributed.is_nccl_available())) if there]
    # With NVML this does not initialise CUDA, so that the children can.
    cuda_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {
        "torch": torch.__version__,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "backends": backends,
        "cuda_devices": cuda_devices,
        "mps": bool(torch.backends.mps.is_available()),
    }


class Zygote:
    def __init__(self, connection_file: Path, folder: Path, worker: str) -> None:
        self._connection_file, self._folder, self._worker = connection_file, folder, worker
        self._events = os.dup(1)  # children write "registered" here too; lines this short are written whole
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._cuda_devices = 0

    def say(self, **event: Any) -> None:
        os.write(self._events, json.dumps(event).encode() + b"\n")

    def serve(self, first_command: dict[str, Any] | None) -> None:
        usual = gc.get_threshold()
        gc.set_threshold(*_IMPORT_THRESHOLDS)
        facts = _preload()
        gc.set_threshold(*usual)
        gc.freeze()  # the collector leaves these pages alone, so they stay shared
        self._cuda_devices = facts["cuda_devices"]
        self.say(event="ready", **facts)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write)
        if first_command:
            self._fork_all(first_command)
        self._loop()

    def _loop(self) -> None:
        pending = b""
        while True:
            readable, _, _ = select.select([0, self._wake_read], [], [])
            if self._wake_read in readable:
                os.read(self._wake_read, 4096)
                self._reap()
            if 0 in readable:
                chunk = os.read(0, 65536)
                if not chunk:
                    return  # the supervisor is gone
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    self._fork_all(json.loads(line))

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
            self.say(event="died", pid=pid, signal=number, exit_code=None if number else os.waitstatus_to_exitcode(status))

    def _fork_all(self, command: dict[str, Any]) -> None:
        while read_if_whole(self._connection_file) is None:
            time.sleep(0.005)
        for slot in command["slots"]:
            self._fork(slot, self._environment(slot, command))

    def _environment(self, slot: int, command: dict[str, Any]) -> dict[str, str]:
        """Each node sees its own GPUs, so that `cuda:{local_rank}` is right on a machine that plays several or is shared."""
        gpus: list[int] | None = command.get("gpus")
        nodes, devices = command["nodes"], command["devices"]
        if gpus is None and nodes > 1 and self._cuda_devices >= nodes * devices:
            first = slot // devices * devices
            gpus = list(range(first, first + devices))
        if gpus is None:
            return {}
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")  # a scheduler may have given this worker some of the machine's
        names = visible.split(",") if visible else [str(number) for number in range(self._cuda_devices)]
        return {"CUDA_VISIBLE_DEVICES": ",".join(names[gpu] for gpu in gpus)}

    def _fork(self, slot: int, environment: dict[str, str]) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self.say(event="forked", slot=slot, pid=pid)
            return
        code = 1
        try:
            self._become_engine(parent, slot, environment)
            code = 0
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else 1
        except BaseException:  # noqa: BLE001  nothing of the parent's may run in the child
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    def _become_engine(self, parent: int, slot: int, environment: dict[str, str]) -> None:
        die_with_parent(parent)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self._wake_read)
        os.close(self._wake_write)
        os.setsid()  # a Ctrl-C in the terminal that holds the notebook server is not for ranks
        log = os.open(self._folder / "log" / f"engine-{slot}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.update(environment)
        from gpulayer_nb.engine.app import launch

        launch(
            connection_file=str(self._connection_file),
            folder=str(self._folder),
            worker=self._worker,
            slot=slot,
            report_fd=self._events,
        )


def main(arguments: list[str] | None = None, serve: Callable[[Zygote, Any], None] = Zygote.serve) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--connection-file", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--worker", required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--first", type=json.loads, help="a first command, done as soon as everything is imported")
    options = parser.parse_args(arguments)
    die_with_parent(options.parent)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
    # c10d warns of every connection from a machine without a name in the DNS, which is most
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    serve(Zygote(options.connection_file, options.folder, options.worker), options.first)


if __name__ == "__main__":
    main()
