"""Watches one cluster while somebody looks: one client, one tap, questions on the control channel.

Runs in the Jupyter server on a thread of its own: ipyparallel's calls block. Never asks an engine's main thread for anything, so
it sees engines that are busy. Owns what was heard and answered; what it means is `cluster_rows`'.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from gpulayer_nb.link.connection import Connection
from gpulayer_nb.link.tap import Tap
from gpulayer_nb.records import wire
from gpulayer_nb.records.connection_file import read_if_whole, with_address
from gpulayer_nb.records.rank_stats import RankStats
from gpulayer_nb.records.record import EngineDied, decode
from gpulayer_nb.records.run_folder import RunFolder
from gpulayer_nb.records.worker_state import WorkerState
from gpulayer_nb.server.cluster_rows import identities
from gpulayer_nb.server.discovery import FoundCluster
from gpulayer_nb.server.live_run import LiveRun
from gpulayer_nb.server.observation import Observation, Usage
from gpulayer_nb.server.rank_output import RankOutput

CONNECT_SECONDS = 10.0
PERIOD_SECONDS = 2.0  # between questions
ANSWER_SECONDS = 1.0
_FIRST_SECONDS = 0.2  # while a cluster comes up
_KEPT_RUNS = 4


class ClusterWatch(threading.Thread):
    """`on_change` is called on any thread whenever something is new."""

    def __init__(self, cluster: FoundCluster, run_folder: Callable[[str], RunFolder], on_change: Callable[[], None]) -> None:
        super().__init__(name=f"gpulayer-watch-{cluster.name}", daemon=True)
        self.cluster = cluster
        self._run_folder, self._on_change = run_folder, on_change
        self._ended, self._wake = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._tap: Tap | None = None
        self._trouble = ""
        self._workers: tuple[WorkerState, ...] = ()
        self._numbers: dict[str, int] = {}  # engine's uuid → ipyparallel's number
        self._busy: set[int] = set()
        self._usage: dict[int, Usage] = {}
        self._asked: float | None = None
        self._output: dict[int, RankOutput] = {}  # by ipyparallel's number
        self._runs: dict[str, LiveRun] = {}

    # On the watch's own thread

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                try:
                    if self._connection is None:
                        self._connect()
                    self._ask()
                except Exception as error:  # noqa: BLE001  what another release answers, or a controller that goes, ends no watch
                    self._trouble = f"it cannot be understood, perhaps it is of another release ({error!r})"
                self._on_change()
                self._wake.wait(_FIRST_SECONDS if self._is_coming_up() else PERIOD_SECONDS)
                self._wake.clear()
        finally:
            if self._tap is not None:
                self._tap.end()
            if self._connection is not None:
                self._connection.close()

    def _is_coming_up(self) -> bool:
        return not self._trouble and (self._connection is None or not self._workers)

    def _connect(self) -> None:
        info = read_if_whole(self.cluster.client_file)
        if info is None:
            return
        try:
            connection = Connection(self.cluster.client_file, timeout_seconds=CONNECT_SECONDS)
        except (TimeoutError, OSError, ValueError) as error:
            self._trouble = f"its controller does not answer ({error or type(error).__name__})"
            self._ended.wait(PERIOD_SECONDS)
            return
        self._trouble = ""
        self._tap = Tap(with_address(info), self._hear)
        self._tap.start()
        connection.on_change(lambda message: self._wake.set())
        self._connection = connection

    def _ask(self) -> None:
        connection = self._connection
        if connection is None:
            self._workers = self._from_disk()
            return
        numbers = connection.engines()
        supervisors = [uuid for uuid in numbers if wire.worker_of(uuid) is not None]
        engines = [uuid for uuid in numbers if wire.EngineIdentity.parse(uuid) is not None]
        states = connection.request(supervisors, wire.WORKER_STATE, timeout_seconds=ANSWER_SECONDS)
        answers = connection.request(engines, wire.STATS, timeout_seconds=ANSWER_SECONDS)
        workers = [WorkerState.from_dict(reply["state"]) for reply in states.values() if "state" in reply]
        now = time.time()
        self._trouble = ""
        with self._lock:
            self._numbers = numbers
            self._workers = tuple(workers) or self._from_disk()
            self._asked = (self._asked or now) if engines else None
            alive = {engine.pid for worker in self._workers for engine in worker.engines}
            self._usage = {pid: usage for pid, usage in self._usage.items() if pid in alive}
            for reply in answers.values():
                stats = RankStats.from_dict(reply)
                self._usage[stats.pid] = usage_since(self._usage.get(stats.pid), stats, now)

    def _from_disk(self) -> tuple[WorkerState, ...]:
        """What the supervisor beside the controller has written: it answers only once torch is imported."""
        folder = self.cluster.folder
        state = WorkerState.read(folder.state) if folder is not None else None
        return (state,) if state is not None else ()

    # On the tap's thread

    def _hear(self, topic: str, message: dict[str, Any]) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == wire.RECORDS_MESSAGE:
            self._take(content)
        else:
            word = topic.split(".")
            if len(word) < 2 or word[0] != "engine" or not word[1].isdigit():
                return
            self._heard_of(int(word[1]), kind, content)
        self._on_change()

    def _heard_of(self, number: int, kind: str, content: dict[str, Any]) -> None:
        with self._lock:
            if kind == "status":
                (self._busy.add if content["execution_state"] == "busy" else self._busy.discard)(number)
            elif kind == "stream":
                self._output.setdefault(number, RankOutput()).write(content["text"])

    def _take(self, batch: dict[str, Any]) -> None:
        run_id = batch["run_id"]
        if not run_id:  # a supervisor's word about an engine
            for data in batch["records"]:
                record = decode(data)
                if isinstance(record, EngineDied):
                    for run in list(self._runs.values()):
                        run.apply(record)
            self._wake.set()
            return
        run = self._runs.get(run_id) or self._begin(run_id)
        run.take(batch)

    def _begin(self, run_id: str) -> LiveRun:
        """A run heard of for the first time: its folder tells the past."""
        run = LiveRun(run_id)
        run.read_folder(self._run_folder(run_id))
        with self._lock:
            self._runs[run_id] = run
            for old in list(self._runs)[:-_KEPT_RUNS]:
                del self._runs[old]
        return run

    # On any thread

    def observe(self, is_ours: bool) -> Observation:
        with self._lock:
            engines, foreign = identities(self._numbers)
            return Observation(
                cluster=self.cluster, now=time.time(), is_connected=self._connection is not None, trouble=self._trouble,
                workers=self._workers, engines=engines, foreign=foreign, busy=frozenset(self._busy), usage=dict(self._usage),
                asked=self._asked, runs=tuple(self._runs.values()), is_ours=is_ours,
            )  # fmt: skip

    @property
    def live_runs(self) -> tuple[LiveRun, ...]:
        with self._lock:
            return tuple(self._runs.values())

    def output(self, number: int) -> list[str]:
        """The last lines of an engine's output since this watch began."""
        with self._lock:
            kept = self._output.get(number)
            return kept.tail() if kept is not None else []

    def request_worker(
        self, key: str, message_type: str, content: dict[str, Any], timeout_seconds: float
    ) -> dict[str, Any] | None:
        """A request to one worker's supervisor; None if it is not there or does not answer."""
        connection = self._connection
        if connection is None:
            return None
        uuids = [uuid for uuid in connection.engines() if wire.worker_of(uuid) == key]
        replies = connection.request(uuids[:1], message_type, content, timeout_seconds=timeout_seconds)
        return next(iter(replies.values()), None)

    def look_again(self) -> None:
        """Something was done: ask now rather than at the next turn."""
        self._wake.set()

    def end(self) -> None:
        self._ended.set()
        self._wake.set()


def usage_since(before: Usage | None, stats: RankStats, now: float) -> Usage:
    """What two answers of one engine say together."""
    if before is None or before.stats.pid != stats.pid:
        return Usage(stats, None, 0.0, now)
    seconds = stats.clock - before.stats.clock
    cpu = 100 * (stats.cpu_seconds - before.stats.cpu_seconds) / seconds if seconds > 0 else before.cpu
    same = stats.collective is not None and (stats.collective, stats.entered, stats.run_id) == (
        before.stats.collective, before.stats.entered, before.stats.run_id,
    )  # fmt: skip
    return Usage(stats, cpu, before.waiting_seconds + seconds if same else 0.0, now)
