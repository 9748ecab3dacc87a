"""The agents of a launch on workers, one a node: each started by its worker's supervisor, asked over the control channel.

Runs in the process that drives a launch. Owns the requests; the worker ends its agents when these stay away.
"""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpulayer_nb.client.agent_pool import AgentSite
from gpulayer_nb.client.script_bundle import ScriptBundle, collect
from gpulayer_nb.errors import ClusterError
from gpulayer_nb.link.connection import Connection
from gpulayer_nb.plan.topology import count
from gpulayer_nb.records import wire
from gpulayer_nb.records.agent import KILL, AgentNews, AgentOrder

_ANSWER_SECONDS = 10.0
_NEWS_SECONDS = 2.0
_PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class AgentWorker:
    """`supervisor` is the ipyparallel uuid of the worker's supervisor; `env` what ranks there need of their own."""

    supervisor: str
    name: str
    address: str
    interface: str
    env: Mapping[str, str] = field(default_factory=dict)


class WorkerAgentPool:
    """Args: workers: one a node, in node order. close: what else is to be let go of at the end."""

    def __init__(
        self,
        connection: Connection,
        workers: Sequence[AgentWorker],
        run_id: str,
        *,
        simulated: bool = False,
        close: Callable[[], None] = lambda: None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._connection, self._workers, self._run_id = connection, list(workers), run_id
        self._close, self._say, self.simulated = close, say, simulated
        self._started: set[int] = set()

    def prepare(self, script: Path, folder: Path, nodes: int) -> list[AgentSite]:
        bundle = collect(script)
        sites = []
        for worker in self._workers:
            asked = {
                "root": str(bundle.root), "script": bundle.script, "folder": str(folder), "files": bundle.files,
                "run_id": self._run_id, "address": worker.address,
            }  # fmt: skip
            reply = self._ask(worker, wire.AGENT_PREPARE, asked)
            if "missing" in reply:
                self._say(f"sending {bundle.script} and {count(len(bundle.files) - 1, 'other file')} to worker {worker.name}")
                if bundle.left_out:
                    warnings.warn(
                        f"{', '.join(bundle.left_out)} beside {bundle.script} did not go to {worker.name}: bigger than 1 MB. "
                        "Next: put data where all workers can read them.",
                        stacklevel=2,
                    )
                self._send(worker, bundle, reply["missing"])
                reply = self._ask(worker, wire.AGENT_PREPARE, asked)
            sites.append(
                AgentSite(
                    worker.name, worker.address, worker.interface, reply["port"], reply["script"], reply["folder"], worker.env
                )
            )
        return sites

    def start(self, orders: Sequence[AgentOrder]) -> None:
        for order in orders:
            self._ask(self._workers[order.node_rank], wire.AGENT_START, {"order": order.to_json()})
            self._started.add(order.node_rank)

    def send(self, nodes: Iterable[int], word: bytes) -> None:
        chosen = list(nodes)
        content = {"run_id": self._run_id, "nodes": chosen, "word": base64.b64encode(word).decode()}
        self._connection.request({self._workers[node].supervisor for node in chosen}, wire.AGENT_SIGNAL, content, 2.0)

    def news(self, offsets: Mapping[int, Mapping[str, int]]) -> dict[int, AgentNews]:
        content = {"run_id": self._run_id, "offsets": {str(node): dict(seen) for node, seen in offsets.items()}}
        supervisors = {self._workers[node].supervisor for node in offsets}
        found: dict[int, AgentNews] = {}
        for supervisor, reply in self._connection.request(supervisors, wire.AGENT_NEWS, content, _NEWS_SECONDS).items():
            if "refused" in reply:
                names = ", ".join(sorted({worker.name for worker in self._workers if worker.supervisor == supervisor}))
                raise ClusterError(f"Worker {names}: {reply['refused']}")
            for node, news in reply.get("news", {}).items():
                found[int(node)] = AgentNews.from_dict(news)
        return found

    def close(self) -> None:
        if self._started:
            self.send(self._started, KILL)
        self._close()

    def _send(self, worker: AgentWorker, bundle: ScriptBundle, digests: Sequence[str]) -> None:
        for digest in digests:
            data = bundle.read(digest)
            for offset in range(0, max(1, len(data)), _PIECE_BYTES):
                piece = base64.b64encode(data[offset : offset + _PIECE_BYTES]).decode()
                self._ask(worker, wire.AGENT_FILE, {"digest": digest, "offset": offset, "data": piece, "size": len(data)})

    def _ask(self, worker: AgentWorker, request: str, content: dict[str, Any]) -> dict[str, Any]:
        """One worker's reply.

        Raises:
            ClusterError: it does not answer, or will not; says why.
        """
        reply = self._connection.request([worker.supervisor], request, content, _ANSWER_SECONDS).get(worker.supervisor)
        if reply is None:
            raise ClusterError(
                f"Worker {worker.name} did not answer in {_ANSWER_SECONDS:.0f} s. Nothing was launched. "
                "Next: `%gpulayer workers` shows who is there."
            )
        if "refused" in reply:
            raise ClusterError(f"Worker {worker.name} cannot take part: {reply['refused']}. Nothing was launched.")
        return reply
