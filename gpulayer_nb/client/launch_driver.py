"""Drives one launch: agents started, their ranks' output and ends taken in, all ended when one fails or the user stops it.

Runs in the process that called `launch`. Owns the waiting; every wait has a limit. Must not know where agents run nor how a run
is shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpulayer_nb.client.agent_pool import AgentPool, AgentSite
from gpulayer_nb.client.script_error import (
    UNCAUGHT_EXIT_CODE,
    BadEnd,
    how,
    last_lines,
    script_error,
    without_noise,
    without_rank_prefix,
)
from gpulayer_nb.client.stop_ladder import ASK, CUT, KILL, StopLadder
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.records import agent as words
from gpulayer_nb.records.agent import AgentNews, AgentOrder, AgentStatus
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import RankDone, RankOutput, RankStatus
from gpulayer_nb.records.run_folder import RunFolder

_TICK_SECONDS = 0.1
_STATUS_SECONDS = 1.0
_LOST_SECONDS = 7.0  # without a word from a worker, whose agents end after 6 without a word from here
_AFTER_KILL_SECONDS = 10.0
_KEPT_STDERR = 64 * 1024  # characters: enough for the longest traceback
_WORDS = {ASK: words.INTERRUPT, CUT: words.TERMINATE, KILL: words.KILL}


@dataclass(frozen=True)
class LaunchOutcome:
    """How a launch ended.

    `exit_codes` by rank (None: not known); `bad_ends` of ranks; `lost` are nodes whose worker went silent; `agent_logs` are
    torchrun's own words on the nodes whose agent failed; `agent_codes` the agents' exit codes by node; `killed_agent` the node
    whose agent was ended by a signal that was not ours, before anything else had failed.
    """

    exit_codes: dict[int, int | None]
    bad_ends: list[BadEnd]
    stopped: bool
    lost: list[int] = field(default_factory=list)
    agent_logs: dict[int, str] = field(default_factory=dict)
    agent_codes: dict[int, int | None] = field(default_factory=dict)
    killed_agent: int | None = None


class LaunchDriver:
    """One launch on one pool.

    Args:
        refresh: called about ten times a second.
        stops: how often the user has asked to stop so far; each time goes one stage further.
    """

    def __init__(
        self,
        pool: AgentPool,
        topology: Topology,
        history: RunHistory,
        folder: RunFolder,
        *,
        refresh: Callable[[], None],
        stops: Callable[[], int],
    ) -> None:
        self._pool, self._topology, self._history, self._folder = pool, topology, history, folder
        self._refresh, self._stops = refresh, stops
        nodes = range(topology.num_nodes)
        self._workers = [""] * topology.num_nodes
        self._offsets: dict[int, dict[str, int]] = {node: {} for node in nodes}
        self._statuses = {node: AgentStatus() for node in nodes}
        self._heard = dict.fromkeys(nodes, 0.0)
        self._errors: dict[int, str] = {}  # rank → the end of what it wrote to stderr
        self._lost: list[int] = []
        self._ladder = StopLadder()
        self._asked = 0
        self._stopped = False
        self._told_at = 0.0
        self._killed_agent: int | None = None

    def run(self, orders: Sequence[AgentOrder], sites: Sequence[AgentSite]) -> LaunchOutcome:
        self._workers = [site.worker for site in sites]
        self._pool.start(orders)
        now = time.monotonic()
        self._heard = dict.fromkeys(self._heard, now)
        while self._waiting():
            time.sleep(_TICK_SECONDS)
            self._turn(time.monotonic())
        return self._outcome()

    def whereabouts(self) -> str:
        """What is known of each rank: a script's own stack is not ours to read."""
        lines = []
        for place in self._topology.places():
            status = self._statuses[place.node_rank]
            pid, end = status.pids.get(place.local_rank), status.ends.get(place.local_rank)
            what = "not started yet" if pid is None else f"running as process {pid}" if end is None else "ended"
            if end is not None and end.exit_code is not None:
                what = f"ended with {how(end.exit_code)}"
            lines.append(f"{place}, worker {self._workers[place.node_rank]}: {what}")
        return "\n".join([*lines, "Next: `py-spy dump --pid PID` on that worker shows where a process is."])

    def _waiting(self) -> list[int]:
        return [node for node in self._offsets if node not in self._lost]

    def _turn(self, now: float) -> None:
        for node, news in sorted(self._pool.news({node: self._offsets[node] for node in self._waiting()}).items()):
            self._heard[node] = now
            self._take(node, news)
        for node in self._waiting():
            if now - self._heard[node] > _LOST_SECONDS:
                self._lost.append(node)
                del self._offsets[node]
        while self._stops() > self._asked:
            self._asked += 1
            self._stopped = self._stopped or not self._failed()
            self._history.mark_stopping()
            if self._ladder.press(now, can_ask=True):
                self._act()
        if self._failed() and self._ladder.raise_to(CUT, now):
            self._act()
        if self._ladder.tick(now):
            self._act()
        if self._ladder.stage == KILL and now - self._ladder.since > _AFTER_KILL_SECONDS:
            self._lost += self._waiting()
            self._offsets.clear()
        self._tell_states(now)
        self._refresh()

    def _failed(self) -> bool:
        return bool(self._lost) or any(
            status.failed_ranks or (status.phase == "over" and status.exit_code != 0) for status in self._statuses.values()
        )

    def _act(self) -> None:
        self._pool.send(self._waiting(), _WORDS[self._ladder.stage])

    def _take(self, node: int, news: AgentNews) -> None:
        for local_rank, stream, text in news.output:
            self._take_output(node * self._topology.devices + local_rank, stream, text)
        before, self._statuses[node] = self._statuses[node], news.status
        if (news.status.exit_code or 0) < 0 and not self._ladder.stage and self._killed_agent is None:
            self._killed_agent = node
        for local_rank, end in news.status.ends.items():
            if local_rank not in before.ends:
                state = "finished" if end.exit_code == 0 else "failed"
                rank = node * self._topology.devices + local_rank
                self._history.apply(RankDone(time=end.time, rank=rank, state=state))
        if news.status.phase == "over" and not news.output:  # all that was written is here
            del self._offsets[node]
            return
        self._offsets[node] = dict(news.offsets)

    def _take_output(self, rank: int, stream: str, text: str) -> None:
        if stream == "stderr":
            self._errors[rank] = (self._errors.get(rank, "") + text)[-_KEPT_STDERR:]
            text = without_noise(without_rank_prefix(text))
            if not text:
                return
        self._history.apply(RankOutput(time=time.time(), rank=rank, stream=stream, text=text))
        with self._folder.log(rank).open("a") as log:
            log.write(text)

    def _tell_states(self, now: float) -> None:
        if now - self._told_at < _STATUS_SECONDS:
            return
        self._told_at = now
        for node, status in self._statuses.items():
            for local_rank in status.pids:
                if local_rank not in status.ends:
                    self._history.apply(RankStatus(rank=node * self._topology.devices + local_rank, state="running"))

    def _outcome(self) -> LaunchOutcome:
        codes: dict[int, int | None] = {}
        ends = []
        for place in self._topology.places():
            status = self._statuses[place.node_rank]
            end = status.ends.get(place.local_rank)
            code = end.exit_code if end is not None else (0 if status.exit_code == 0 else None)
            said = self._errors.get(place.rank, "")
            error = script_error(said) if end is not None and code != 0 else None
            if code is None and error is not None:
                code = UNCAUGHT_EXIT_CODE
            codes[place.rank] = code
            if end is not None and code:
                ends.append(BadEnd(place, self._workers[place.node_rank], code, end.time, error, last_lines(said), end.is_late))
        logs = {node: status.log for node, status in self._statuses.items() if status.phase == "over" and status.exit_code != 0}
        agents = {node: status.exit_code for node, status in self._statuses.items()}
        return LaunchOutcome(codes, ends, self._stopped, list(self._lost), logs, agents, self._killed_agent)
