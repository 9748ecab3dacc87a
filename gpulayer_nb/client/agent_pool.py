"""Where the agents of a launch run: on this machine, or each on a worker.

Runs in whatever process drives a launch. Owns the agents' start, their leases and the way their news comes. Must not know runs.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpulayer_nb.errors import ClusterError
from gpulayer_nb.link.ports import HeldPort
from gpulayer_nb.records.agent import KILL, LOOPBACK_INTERFACE, AgentNews, AgentOrder
from gpulayer_nb.records.agent_folder import AgentFolder

LOCAL = "local"
_END_SECONDS = 8.0


@dataclass(frozen=True)
class AgentSite:
    """Where one node's agent will run. `port` is free for the rendezvous there; only node 0's is used. `env` is its own."""

    worker: str
    address: str
    interface: str
    port: int
    script: str
    folder: str
    env: Mapping[str, str] = field(default_factory=dict)


class AgentPool(Protocol):
    """The agents of one launch, by node rank."""

    simulated: bool

    def prepare(self, script: Path, folder: Path, nodes: int) -> list[AgentSite]:
        """One site a node; the script and what it needs are there when this returns."""

    def start(self, orders: Sequence[AgentOrder]) -> None: ...

    def send(self, nodes: Iterable[int], word: bytes) -> None:
        """Tells the keepers of these nodes one of the words of `records.agent`."""

    def news(self, offsets: Mapping[int, Mapping[str, int]]) -> dict[int, AgentNews]:
        """What is new of these nodes since these offsets; without the nodes that do not answer."""

    def close(self) -> None:
        """Ends whatever is left and takes the agents' folders away."""


class LocalAgentPool:
    """All agents on this machine, each a child of this process: the script runs in its place, with no cluster up."""

    simulated = True

    def __init__(self) -> None:
        self._parent = Path(tempfile.mkdtemp(prefix="gpulayer-launch-"))
        self._folders: dict[int, AgentFolder] = {}
        self._keepers: dict[int, subprocess.Popen[bytes]] = {}
        self._port: HeldPort | None = None  # the rendezvous'

    def prepare(self, script: Path, folder: Path, nodes: int) -> list[AgentSite]:
        self._port = HeldPort("127.0.0.1")
        site = AgentSite(LOCAL, "127.0.0.1", LOOPBACK_INTERFACE, self._port.number, str(script), str(folder))
        return [site] * nodes

    def start(self, orders: Sequence[AgentOrder]) -> None:
        for order in orders:
            folder = self._folders[order.node_rank] = AgentFolder.create(self._parent, order)
            with (folder.path / "keeper.log").open("wb") as log:
                self._keepers[order.node_rank] = subprocess.Popen(
                    folder.keeper_command(), stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
                )

    def send(self, nodes: Iterable[int], word: bytes) -> None:
        for node in nodes:
            lease = self._keepers[node].stdin
            if lease is not None:
                with contextlib.suppress(BrokenPipeError, ValueError):
                    lease.write(word)
                    lease.flush()

    def news(self, offsets: Mapping[int, Mapping[str, int]]) -> dict[int, AgentNews]:
        found = {}
        for node, seen in offsets.items():
            has_ended = self._keepers[node].poll() is not None  # asked first: its last words are on disk by then
            news = self._folders[node].news(seen)
            if has_ended and news.status.phase != "over":
                log = (self._folders[node].path / "keeper.log").read_text(errors="replace")
                raise ClusterError(f"The keeper of node {node}'s torchrun agent ended by itself. Its last words:\n{log[-2000:]}")
            found[node] = news
        return found

    def close(self) -> None:
        self.send(self._keepers, KILL)
        for keeper in self._keepers.values():
            if keeper.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    keeper.stdin.close()
        for keeper in self._keepers.values():
            try:
                keeper.wait(timeout=_END_SECONDS)
            except subprocess.TimeoutExpired:
                keeper.kill()
                keeper.wait(timeout=_END_SECONDS)
        if self._port is not None:
            self._port.close()
        shutil.rmtree(self._parent, ignore_errors=True)
