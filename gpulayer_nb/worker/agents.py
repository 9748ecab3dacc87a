"""The torchrun agents of launches on this worker: started, asked about and ended over the control channel.

Runs in the supervisor's process. Owns the keepers' leases: when the client that drives a launch is silent, or this process ends,
the keepers end everything below them.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulayer_nb.link.ports import HeldPort
from gpulayer_nb.records import wire
from gpulayer_nb.records.agent import KILL, AgentOrder
from gpulayer_nb.records.agent_folder import AgentFolder
from gpulayer_nb.records.run_folder import default_root
from gpulayer_nb.worker.launch_files import LaunchFiles

SILENT_SECONDS = 6.0  # a client asks about ten times a second, and gives up a worker after 7: what it gave up has ended
_KEPT_SECONDS = 60.0  # after the end: the client may ask for the last words again
_LOOK_SECONDS = 1.0


@dataclass
class _Agent:
    folder: AgentFolder
    keeper: subprocess.Popen[bytes]
    asked: float  # when the client last asked


class Agents:
    """Args: parent: a folder of this worker, for the agents' own."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._files = LaunchFiles(default_root())
        self._agents: dict[tuple[str, int], _Agent] = {}
        self._ports: dict[str, tuple[HeldPort, float]] = {}  # of launches that are prepared or run here, and since when
        self._lock = threading.Lock()
        self._watched = False

    def answer(self, request: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to one of wire.AGENT_REQUESTS; {"refused": why} for what cannot be done."""
        actions = {
            wire.AGENT_PREPARE: self._prepare, wire.AGENT_FILE: self._take, wire.AGENT_START: self._start,
            wire.AGENT_SIGNAL: self._signal, wire.AGENT_NEWS: self._news,
        }  # fmt: skip
        try:
            return actions[request](content)
        except (OSError, ValueError) as error:
            return {"refused": str(error)}

    def _prepare(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Where the script will run here; or which files have to be sent first."""
        files: dict[str, str] = content["files"]
        if self._files.are_in_place(content["root"], files):
            script, folder = Path(content["root"]) / content["script"], Path(content["folder"])
            if not folder.is_dir():
                folder = Path(content["root"])
        else:
            missing = self._files.missing(files)
            if missing:
                return {"missing": missing}
            folder = self._files.lay_out(content["run_id"], files)
            script = folder / content["script"]
        return {"script": str(script), "folder": str(folder), "port": self._port_for(content["run_id"], content["address"])}

    def _port_for(self, run_id: str, address: str) -> int:
        """The rendezvous' port of a launch. torchrun listens on it seconds later, if node 0 is here."""
        with self._lock:
            if run_id not in self._ports:
                self._ports[run_id] = HeldPort(address), time.monotonic()
            self._start_watching()
            return self._ports[run_id][0].number

    def _take(self, content: Mapping[str, Any]) -> dict[str, Any]:
        self._files.take(content["digest"], content["offset"], content["data"], content["size"])
        return {}

    def _start(self, content: Mapping[str, Any]) -> dict[str, Any]:
        order = AgentOrder.from_json(content["order"])
        self._parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = AgentFolder.create(self._parent, order)
        with (folder.path / "keeper.log").open("wb") as log:
            keeper = subprocess.Popen(
                folder.keeper_command(), stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        with self._lock:
            self._agents[order.run_id, order.node_rank] = _Agent(folder, keeper, time.monotonic())
            self._start_watching()
        return {"pid": keeper.pid}

    def _signal(self, content: Mapping[str, Any]) -> dict[str, Any]:
        word = base64.b64decode(content["word"])
        for node in content["nodes"]:
            agent = self._agents.get((content["run_id"], int(node)))
            if agent is not None:
                _tell(agent, word)
        return {}

    def _news(self, content: Mapping[str, Any]) -> dict[str, Any]:
        news = {}
        for node, offsets in content["offsets"].items():
            agent = self._agents.get((content["run_id"], int(node)))
            if agent is None:
                continue
            agent.asked = time.monotonic()
            has_ended = agent.keeper.poll() is not None
            found = agent.folder.news(offsets)
            if has_ended and found.status.phase != "over":
                log = (agent.folder.path / "keeper.log").read_text(errors="replace")
                return {"refused": f"the keeper of node {node}'s torchrun agent ended by itself: {log[-2000:]}"}
            news[node] = found.to_dict()
        return {"news": news}

    def _start_watching(self) -> None:
        if not self._watched:
            self._watched = True
            threading.Thread(target=self._watch, name="gpulayer-agents", daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            with self._lock:
                self._let_ports_go(now)
                silent = {key: agent for key, agent in self._agents.items() if now - agent.asked > SILENT_SECONDS}
            for key, agent in silent.items():
                _tell(agent, KILL)
                if agent.keeper.poll() is not None and now - agent.asked > _KEPT_SECONDS:
                    with self._lock:
                        del self._agents[key]
                    shutil.rmtree(agent.folder.path, ignore_errors=True)

    def _let_ports_go(self, now: float) -> None:
        running = {run_id for run_id, _ in self._agents}
        for run_id, (port, since) in list(self._ports.items()):
            if run_id not in running and now - since > _KEPT_SECONDS:
                port.close()
                del self._ports[run_id]


def _tell(agent: _Agent, word: bytes) -> None:
    if agent.keeper.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            agent.keeper.stdin.write(word)
            agent.keeper.stdin.flush()
