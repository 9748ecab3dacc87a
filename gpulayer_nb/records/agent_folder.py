"""The folder of one torchrun agent, on the machine where it runs.

Written by the agent's keeper and by torchrun, read by whoever started the keeper. Owns the layout:
    order.json     what the agent is told
    status.json    what the keeper knows of it
    failures.json  exit codes of the ranks that failed, from torchrun
    agent.log      torchrun's own words
    ranks/         torchrun's log folder: what each rank writes
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpulayer_nb.records.agent import AgentNews, AgentOrder, AgentStatus
from gpulayer_nb.records.run_follower import whole_characters

STREAMS = ("stdout", "stderr")
MAX_BYTES = 256 * 1024  # read of one stream at a time: a flood must not become one huge message


@dataclass(frozen=True)
class AgentFolder:
    path: Path

    @classmethod
    def create(cls, parent: Path, order: AgentOrder) -> AgentFolder:
        """A new folder for one agent under `parent`."""
        folder = cls(parent / f"{order.run_id}-node-{order.node_rank}")
        folder.rank_logs.mkdir(mode=0o700, parents=True)
        folder.order_file.write_text(order.to_json())
        return folder

    @property
    def order_file(self) -> Path:
        return self.path / "order.json"

    @property
    def status_file(self) -> Path:
        return self.path / "status.json"

    @property
    def failures_file(self) -> Path:
        return self.path / "failures.json"

    @property
    def agent_log(self) -> Path:
        return self.path / "agent.log"

    @property
    def rank_logs(self) -> Path:
        return self.path / "ranks"

    def keeper_command(self) -> list[str]:
        """Starts the keeper; its standard input is the lease."""
        return [sys.executable, "-m", "gpulayer_nb.worker.agent_keeper", str(self.path)]

    def read_order(self) -> AgentOrder:
        return AgentOrder.from_json(self.order_file.read_text())

    def write_status(self, status: AgentStatus) -> None:
        temporary = self.path / ".status"
        temporary.write_text(json.dumps(status.to_dict()))
        temporary.replace(self.status_file)

    def read_status(self) -> AgentStatus:
        try:
            return AgentStatus.from_dict(json.loads(self.status_file.read_text()))
        except FileNotFoundError:
            return AgentStatus()

    def log_tail(self, lines: int = 40) -> str:
        """The end of what torchrun itself said."""
        try:
            return "\n".join(self.agent_log.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return ""

    def news(self, offsets: Mapping[str, int]) -> AgentNews:
        """What is new since these offsets. The status is read first: once it says "over", nothing is written any more."""
        status = self.read_status()
        output: list[tuple[int, str, str]] = []
        after = dict(offsets)
        for local_rank, stream, path in self._streams():
            name = f"{local_rank}.{stream}"
            text, after[name] = _read(path, after.get(name, 0), last=status.phase == "over")
            if text:
                output.append((local_rank, stream, text))
        return AgentNews(status=status, output=tuple(output), offsets=after)

    def _streams(self) -> list[tuple[int, str, Path]]:
        """torchrun writes `<its run>/attempt_0/<local rank>/stdout.log`."""
        found = []
        for folder in sorted(self.rank_logs.glob("*/attempt_0/*")):
            if folder.name.isdigit():
                found += [(int(folder.name), stream, folder / f"{stream}.log") for stream in STREAMS]
        return found


def _read(path: Path, offset: int, *, last: bool) -> tuple[str, int]:
    """New text and the offset behind it; half a character at the end waits for its other half, unless there is none."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size <= offset:
                return "", offset
            file.seek(offset)
            data = file.read(MAX_BYTES)
    except FileNotFoundError:
        return "", offset
    whole = whole_characters(data)
    if whole == 0 and last:
        whole = len(data)
    return data[:whole].decode(errors="replace"), offset + whole
