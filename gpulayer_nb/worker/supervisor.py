"""Keeps one machine's engines: a zygote that forks them, a table of who is up, word to the hub when one dies.

Runs in the supervisor's process, which never imports torch. Owns the processes; must not know runs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulayer_nb import process
from gpulayer_nb.records.cluster_folder import ClusterFolder
from gpulayer_nb.records.record import EngineDied
from gpulayer_nb.records.worker_state import EngineDeath, EngineState, WorkerState
from gpulayer_nb.worker.agents import Agents
from gpulayer_nb.worker.claims import Claims

_END_SECONDS = 5.0  # SIGKILL takes effect at once unless a process sits in the kernel's disk wait


@dataclass(frozen=True)
class Place:
    """Where a worker is and what it lends; as it stands, that of the embedded one.

    Attributes:
        devices: engines it offers at most; 0 for as many as are asked for.
        probe_port: where it answers other workers with `probe_token`.
    """

    address: str = "127.0.0.1"
    interface: str = "lo"
    devices: int = 0
    accelerator: str = "auto"
    probe_port: int = 0
    probe_token: str = ""


class Supervisor:
    """One worker.

    `on_death` is told of every engine that ends without being asked to; `on_leave` why this worker ends, before anything does,
    and what it returns is called afterwards.

    Args:
        worker: its key, which its engines carry.
    """

    def __init__(self, worker: str, folder: ClusterFolder, place: Place | None = None) -> None:
        self.worker, self.folder, self.place = worker, folder, place or Place()
        self.claims = Claims(self.place.devices)
        self.on_death: Callable[[EngineDied], None] = lambda died: None
        self.on_leave: Callable[[str], Callable[[], None]] = lambda why: lambda: None
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
        self.asked_by = ""  # who or what has told this worker to end
        self.agents = Agents(folder.path / "agents")  # of launches

    def start(self, first: Mapping[str, Any] | None = None, *, with_controller: bool) -> None:
        """Starts the zygote, which forks the `first` engines as soon as it has torch, and a controller beside it if asked to."""
        zygote = [
            sys.executable, "-m", "gpulayer_nb.engine.zygote",
            f"--connection-file={self.folder.engine_file}", f"--folder={self.folder.path}", f"--worker={self.worker}",
            f"--parent={os.getpid()}", f"--first={json.dumps(first)}",
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

    def start_engines(self, slots: Sequence[int], nodes: int, devices: int, gpus: Sequence[int] | None = None) -> None:
        """One new engine in each slot; one that is still there (stopped, or given up by the hub) makes room.

        Args:
            gpus: the GPUs that these engines see, by their number on this worker; None leaves it to the zygote.
        """
        if self._zygote is None or self._zygote.stdin is None:
            raise RuntimeError("the supervisor is not started")
        self.kill_engines(slots)
        line = json.dumps({"slots": list(slots), "nodes": nodes, "devices": devices, "gpus": gpus})
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
                address=self.place.address,
                interface=self.place.interface,
                host=socket.gethostname(),
                devices=self.place.devices,
                accelerator=self.place.accelerator,
                probe_port=self.place.probe_port,
                probe_token=self.place.probe_token,
                claims=self.claims.current(),
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
            self.fail("the cluster's folder is gone")

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

    @property
    def has_controller(self) -> bool:
        """Whether the cluster ends with this worker."""
        return self._controller is not None

    def hub_ids(self) -> list[int]:
        """ipyparallel's numbers of the engines that are up."""
        with self._lock:
            return [self._hub_ids[engine.pid] for engine in self._engines.values() if engine.pid in self._hub_ids]

    def hub_id(self, pid: int) -> int | None:
        """ipyparallel's number of an engine that has registered."""
        return self._hub_ids.get(pid)

    def _watch(self, name: str, child: subprocess.Popen[bytes]) -> None:
        code = child.wait()
        if not self.ended.is_set():
            self.fail(f"the {name} ended with {_how(code)}; see {self.folder.logs / name}.log")

    def fail(self, message: str) -> None:
        """Ends this worker, and says why."""
        if not self.ended.is_set():
            self._message = message
        self.ended.set()

    def leave(self, by: str) -> None:
        """Ends this worker, because somebody wants it out of the cluster."""
        self.asked_by = self.asked_by or by
        self.ended.set()

    def why_ended(self) -> str:
        """As a clause, for those who use it."""
        return self._message or (f"asked to by {self.asked_by}" if self.asked_by else "told to")

    @property
    def message(self) -> str:
        """Why it ended, if it was not told to."""
        return self._message

    def end_claim(self, token: str) -> list[int]:
        """A client has left: its engines end, what it sent goes. Returns the slots that were up."""
        killed = self.kill_engines(self.claims.release(token))
        shutil.rmtree(self.files_of(token), ignore_errors=True)
        return killed

    def end_silent_claims(self) -> None:
        """Ends the engines of clients that have gone without a word."""
        for claim in self.claims.expire(time.monotonic()):
            self.kill_engines(claim.slots)
            shutil.rmtree(self.files_of(claim.token), ignore_errors=True)

    def files_of(self, token: str) -> Path:
        """The folder for what a client sends."""
        if not token.isalnum():
            raise ValueError(f"{token!r} names no client")
        return self.folder.blobs / token

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
