"""Keeps one machine's engines: a zygote that forks them, a table of who is up, word to the hub when one dies.

Runs in the supervisor's process, which never imports torch. Owns the processes; must not know runs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpulayer_nb import process
from gpulayer_nb.records.cluster_folder import ClusterFolder
from gpulayer_nb.records.record import EngineDied
from gpulayer_nb.records.worker_state import EngineDeath, EngineState, WorkerState

_END_SECONDS = 5.0  # SIGKILL takes effect at once unless a process sits in the kernel's disk wait


class Supervisor:
    """One worker. `on_death` is told of every engine that ends without being asked to."""

    def __init__(self, worker: str, folder: ClusterFolder) -> None:
        self.worker, self.folder = worker, folder
        self.on_death: Callable[[EngineDied], None] = lambda died: None
        self.ready = threading.Event()  # torch is imported, engines are being forked
        self.ended = threading.Event()  # something we need is gone, or we were told to end
        self._lock = threading.Lock()
        self._zygote: subprocess.Popen[bytes] | None = None
        self._controller: subprocess.Popen[bytes] | None = None
        self._facts: dict[str, Any] = {}
        self._engines: dict[int, EngineState] = {}  # by slot
        self._slots: dict[int, int] = {}  # pid → slot, also of one whose slot a newer engine has taken
        self._hub_ids: dict[int, int] = {}  # pid → ipyparallel's number
        self._doomed: set[int] = set()  # pids we were asked to end
        self._deaths: list[EngineDeath] = []
        self._message = ""

    def start(self, slots: int, nodes: int, devices: int, with_controller: bool) -> None:
        """Starts the zygote, which forks `slots` engines as soon as it has torch, and the controller beside it."""
        first = json.dumps({"slots": list(range(slots)), "nodes": nodes, "devices": devices})
        zygote = [
            sys.executable, "-m", "gpulayer_nb.engine.zygote",
            f"--connection-file={self.folder.engine_file}", f"--folder={self.folder.path}", f"--worker={self.worker}",
            f"--parent={os.getpid()}", f"--first={first}",
        ]  # fmt: skip
        self._zygote = self._popen(zygote, "zygote.log", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if with_controller:
            controller = [
                sys.executable,
                "-m",
                "gpulayer_nb.worker.controller",
                f"--folder={self.folder.path}",
                f"--parent={os.getpid()}",
            ]
            self._controller = self._popen(controller, "controller.log")
            threading.Thread(target=self._watch, args=("controller", self._controller), daemon=True).start()
        threading.Thread(target=self._read_events, args=(self._zygote,), daemon=True).start()
        threading.Thread(target=self._watch, args=("zygote", self._zygote), daemon=True).start()
        self._write_state()

    def _popen(self, command: Sequence[str], log: str, **streams: Any) -> subprocess.Popen[bytes]:
        with (self.folder.logs / log).open("ab") as output:
            streams = {"stdin": subprocess.DEVNULL, "stdout": output, **streams, "stderr": output}
            return subprocess.Popen(command, start_new_session=True, **streams)

    def start_engines(self, slots: Sequence[int], nodes: int, devices: int) -> None:
        """One new engine in each slot; one that is still there (stopped, or given up by the hub) makes room."""
        if self._zygote is None or self._zygote.stdin is None:
            raise RuntimeError("the supervisor is not started")
        self.kill_engines(slots)
        line = json.dumps({"slots": list(slots), "nodes": nodes, "devices": devices})
        self._zygote.stdin.write(line.encode() + b"\n")
        self._zygote.stdin.flush()

    def kill_engines(self, slots: Iterable[int]) -> list[int]:
        """SIGKILL: nothing else reaches a process whose main thread waits inside gloo. Returns the slots that were up."""
        killed = []
        for slot in slots:
            with self._lock:
                engine = self._engines.get(slot)
                if engine is not None:
                    self._doomed.add(engine.pid)
            if engine is not None and process.kill_if_same(engine.pid, engine.ticks):
                killed.append(slot)
        return killed

    def state(self) -> WorkerState:
        with self._lock:
            children = tuple((child.pid, process.start_ticks(child.pid)) for child in (self._zygote, self._controller) if child)
            return WorkerState(
                worker=self.worker,
                pid=os.getpid(),
                phase="down" if self.ended.is_set() else ("up" if self._facts else "loading"),
                facts=self._facts,
                engines=tuple(self._engines[slot] for slot in sorted(self._engines)),
                deaths=tuple(self._deaths[-100:]),
                children=children,
                message=self._message,
            )

    def _write_state(self) -> None:
        try:
            self.state().write(self.folder.state)
        except FileNotFoundError:
            self._end("the cluster's folder is gone")

    def _read_events(self, zygote: subprocess.Popen[bytes]) -> None:
        for line in zygote.stdout or ():
            event = json.loads(line)
            died = self._take(event)
            self._write_state()
            if event["event"] == "ready":
                self.ready.set()
            if died is not None:
                self.on_death(died)

    def _take(self, event: dict[str, Any]) -> EngineDied | None:
        kind, pid = event["event"], event.get("pid", 0)
        with self._lock:
            if kind == "ready":
                self._facts = {key: value for key, value in event.items() if key != "event"}
            elif kind == "forked":
                self._engines[event["slot"]] = EngineState(slot=event["slot"], pid=pid, ticks=process.start_ticks(pid))
                self._slots[pid] = event["slot"]
            elif kind == "registered":
                engine = EngineState(slot=event["slot"], pid=pid, ticks=process.start_ticks(pid), uuid=event["uuid"])
                self._engines[event["slot"]] = engine
                self._hub_ids[pid] = event["id"]
            elif kind == "died":
                return self._bury(pid, event["signal"], event["exit_code"])
        return None

    def _bury(self, pid: int, signal_: int | None, exit_code: int | None) -> EngineDied | None:
        slot = self._slots.pop(pid, None)
        if slot is None:
            return None
        if slot in self._engines and self._engines[slot].pid == pid:
            del self._engines[slot]
        expected = pid in self._doomed
        self._doomed.discard(pid)
        self._deaths.append(EngineDeath(slot=slot, pid=pid, signal=signal_, exit_code=exit_code, expected=expected))
        return EngineDied(time=time.time(), worker=self.worker, slot=slot, pid=pid, signal=signal_, exit_code=exit_code)

    def hub_id(self, pid: int) -> int | None:
        """ipyparallel's number of an engine that has registered."""
        return self._hub_ids.get(pid)

    def _watch(self, name: str, child: subprocess.Popen[bytes]) -> None:
        code = child.wait()
        if not self.ended.is_set():
            self._end(f"the {name} ended with {_how(code)}; see {self.folder.logs / name}.log")

    def _end(self, message: str) -> None:
        self._message = message
        self.ended.set()

    def end(self) -> None:
        """Kills all that runs below this process, and takes the folder away unless something went wrong."""
        self.ended.set()
        deadline = time.monotonic() + _END_SECONDS
        # Loader workers and schedulers of killed parents become our children (we adopt orphans), so look again.
        while below := process.children_of(os.getpid()):
            for pid in below:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            _reap()
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        shutil.rmtree(self.folder.blobs, ignore_errors=True)
        if self._message:
            self._write_state()  # whoever started us reads why, and takes the folder away
        else:
            shutil.rmtree(self.folder.path, ignore_errors=True)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
