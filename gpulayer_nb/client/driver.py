"""Sends one run to its ranks and waits for it: for the results, an error, a stop, or a time limit.

Runs in the kernel's main thread. Owns the waiting and the release of all ranks; every wait has a limit.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gpulayer_nb.client.cluster import EngineWatch
from gpulayer_nb.client.first_cause import RankLoss, who
from gpulayer_nb.client.hang_report import HangReport, report
from gpulayer_nb.client.listener import RunListener
from gpulayer_nb.client.rank_group import ReadyGroup
from gpulayer_nb.client.stop_ladder import ASK, CUT, KILL, StopLadder
from gpulayer_nb.link.connection import Connection
from gpulayer_nb.records import wire
from gpulayer_nb.records.call import RUN
from gpulayer_nb.records.run_spec import RankResult, RunSpec
from gpulayer_nb.records.whereabouts import Whereabouts

_TICK_SECONDS = 0.1
_REPEAT_INTERRUPT_SECONDS = 1.0  # an interrupt can be swallowed by a bare `except:` in the user's loop
_LAST_RECORDS_SECONDS = 2.0
_QUIET_SECONDS = 10.0  # without a step, or in one cell
_LOOK_SECONDS = 5.0
_LOOKS_BEFORE, _BETWEEN_LOOKS_SECONDS = 2, 0.15  # who goes on is hardly seen at the same line three times
_KILL_AGAIN_SECONDS, _GIVE_UP_SECONDS = 5.0, 30.0  # after the first kill
_LEAVING_SECONDS = 12.0  # that a rank may take to come back after it has left the user's code
_HUB_SECONDS = 1.0  # after which the hub should have told that an engine has gone


@dataclass(frozen=True)
class DriverOutcome:
    """How the ranks ended. `stopped_by` is "", "user" or "timeout"; `group_is_whole` says that the group can be kept."""

    results: dict[int, RankResult]
    losses: tuple[RankLoss, ...]
    stopped_by: str
    hang: HangReport | None
    group_is_whole: bool


class Driver:
    """One run on one group."""

    def __init__(
        self,
        connection: Connection,
        group: ReadyGroup,
        listener: RunListener,
        wake: threading.Event,
        *,
        watch: EngineWatch,
        can_ask: bool,
        refresh: Callable[[], None],
        timeout_seconds: float | None = None,
        stopping: Callable[[], None] = lambda: None,
        stalled_seconds: Callable[[], float] = lambda: 0.0,
        warn: Callable[[str], None] = lambda text: None,
        presses: Callable[[], int] = lambda: 0,
    ) -> None:
        self._presses = presses  # how often the user has asked to stop
        self._stalled_seconds, self._warn = stalled_seconds, warn
        self._stopping = stopping
        self._connection, self._group, self._listener, self._wake = connection, group, listener, wake
        self._watch, self._refresh = watch, refresh
        self._gone_since: dict[int, float] = {}
        self._can_ask, self._timeout = can_ask, timeout_seconds
        self._run_id = ""
        self._futures: dict[int, Any] = {}
        self._results: dict[int, RankResult] = {}
        self._losses: dict[int, RankLoss] = {}
        self._ladder = StopLadder()
        self._stopped_by = ""
        self._interrupted_at = self._killed_at = 0.0
        self._gaps: dict[int, float] = {}
        self._hang: HangReport | None = None
        self._looked_at = 0.0
        self._warned: set[str] = set()
        self._stop_requests = 0
        self._requests_seen = 0

    def run(self, specs: Sequence[RunSpec]) -> DriverOutcome:
        self._run_id = specs[0].run_id
        started = time.monotonic()
        for spec in specs:
            self._send(spec)
        while self._waiting():
            self._turn(started)
        self._collect_last_records()
        whole = (
            not self._losses
            and self._ladder.stage < CUT
            and all(r.state != "failed" and r.has_group for r in self._results.values())
        )
        return DriverOutcome(self._results, tuple(self._losses.values()), self._stopped_by, self._hang, whole)

    def _send(self, spec: RunSpec) -> None:
        rank = spec.place.rank
        try:
            future = self._connection.call(self._group.engines[rank], RUN, pickle.dumps(spec))
        except KeyError:  # its engine has gone since the group was made
            self._lose(rank)
            return
        future.add_done_callback(lambda _: self._wake.set())
        self._futures[rank] = future

    def request_stop(self) -> None:
        """Asks for a stop from another thread; each call goes one stage further."""
        self._stop_requests += 1
        self._wake.set()

    def _waiting(self) -> list[int]:
        return [rank for rank in self._futures if rank not in self._results and rank not in self._losses]

    def _turn(self, started: float) -> None:
        self._wake.wait(_TICK_SECONDS)
        self._wake.clear()
        self._collect()
        self._refill_gaps()
        now = time.monotonic()
        if self._timeout is not None and not self._ladder.stage and now - started > self._timeout and self._waiting():
            self._stopped_by = "timeout"
            self._hang = self.hang_report()
            self._climb(CUT, now)
        while self._stop_requests + self._presses() > self._requests_seen:
            self._requests_seen += 1
            self._press()
        if (self._losses or self._failed()) and self._waiting():
            self._climb(CUT, now)
        if self._ladder.tick(now):
            self._act()
        if self._ladder.stage == KILL:
            self._insist(now)
        if self._ladder.stage == CUT and now - self._interrupted_at > _REPEAT_INTERRUPT_SECONDS:
            self._interrupt()
        if not self._ladder.stage:
            self._look_for_a_hang(now, now - started)
        self._refresh()

    def _failed(self) -> bool:
        return bool(self._listener.failures) or any(result.state == "failed" for result in self._results.values())

    def _collect(self) -> None:
        for rank in self._waiting():
            future = self._futures[rank]
            if not future.done():
                if self._is_gone_for_good(rank):
                    self._lose(rank)
                continue
            try:
                self._results[rank] = pickle.loads(future.get(timeout=1.0))
            except Exception:  # noqa: BLE001  ipyparallel raises one of several errors for an engine that has gone
                self._lose(rank)

    def _is_gone_for_good(self, rank: int) -> bool:
        """The hub tells of a lost engine, unless it is gone too."""
        if not self._watch.is_gone(self._group.engines[rank]):
            return False
        since = self._gone_since.setdefault(rank, time.monotonic())
        return time.monotonic() - since > _HUB_SECONDS

    def _lose(self, rank: int) -> None:
        assignment, pid = self._group.assignments[rank], self._group.identity(rank).pid
        by_us = self._ladder.stage == KILL and not self._watch.is_cut_off(assignment.engine)
        death = self._watch.death_of(assignment.engine)
        why = self._watch.why_lost(assignment.engine) if death is None and not by_us else None
        self._losses[rank] = RankLoss(assignment.place, assignment.worker, pid, death, killed_by_us=by_us, why=why)

    def _press(self) -> None:
        self._stopped_by = self._stopped_by or "user"
        self._stopping()
        if self._ladder.press(time.monotonic(), self._can_ask):
            self._act()

    def _climb(self, stage: int, now: float) -> None:
        if self._ladder.raise_to(stage, now):
            self._act()

    def _act(self) -> None:
        """Does what the present stage says."""
        if self._ladder.stage == ASK:
            self._ask(wire.STOP)
        elif self._ladder.stage == CUT:
            self._ask(wire.ABORT)
            self._interrupt()
        elif self._ladder.stage == KILL:
            self._killed_at = time.monotonic()
            leaving = self._leaving() if self._killed_at - self._ladder.since < _LEAVING_SECONDS else set()
            stuck = [self._group.engines[rank] for rank in self._waiting() if rank not in leaving]
            if stuck:
                self._watch.kill(stuck)

    def _insist(self, now: float) -> None:
        """A rank that is not even gone after it was killed (its machine is cut off, its worker hangs) is given up in the end."""
        if now - self._killed_at > _KILL_AGAIN_SECONDS:
            self._act()
        if now - self._ladder.since > _GIVE_UP_SECONDS:
            for rank in self._waiting():
                self._lose(rank)

    def _interrupt(self) -> None:
        self._interrupted_at = time.monotonic()
        self._ask(wire.INTERRUPT)

    def _ask(self, request: str) -> dict[str, dict[str, Any]]:
        engines = [self._group.engines[rank] for rank in self._waiting()]
        return self._connection.request(engines, request, {"run_id": self._run_id}, timeout_seconds=1.0)

    def _leaving(self) -> set[int]:
        """Ranks that have left the user's code and are on their way back: slow, not stuck, so they keep their variables."""
        engines = {self._group.engines[rank]: rank for rank in self._waiting()}
        replies = self._connection.request(engines, wire.STACKS, timeout_seconds=1.0)
        return {engines[engine] for engine, reply in replies.items() if not reply.get("busy", True)}

    def hang_report(self) -> HangReport:
        """Where every rank is now, and who waits for whom. Any thread may ask."""
        earlier: list[Whereabouts] = []
        for _ in range(_LOOKS_BEFORE):
            earlier += self._whereabouts()[0]
            time.sleep(_BETWEEN_LOOKS_SECONDS)
        found, missing = self._whereabouts()
        return report(found, missing, self._who, earlier)

    def _whereabouts(self) -> tuple[list[Whereabouts], list[int]]:
        """Of the ranks that answer, and the ranks that do not."""
        engines = self._group.engines
        replies = self._connection.request(engines, wire.STACKS, timeout_seconds=2.0)
        found = [Whereabouts.from_dict(_bare(replies[engine])) for engine in engines if engine in replies]
        return found, [rank for rank, engine in enumerate(engines) if engine not in replies]

    def _who(self, rank: int) -> str:
        assignment = self._group.assignments[rank]
        return who(assignment.place, assignment.worker)

    def _look_for_a_hang(self, now: float, running_seconds: float) -> None:
        """A run that makes no step may wait for ever: says so, and why. It is never ended for that."""
        quiet = self._stalled_seconds() if self._can_ask else running_seconds
        if quiet < _QUIET_SECONDS or now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        found = self.hang_report()
        if found.is_blocked and found.verdict not in self._warned:
            self._warned.add(found.verdict)
            self._warn(found.verdict)

    def _refill_gaps(self) -> None:
        """Asks a rank again for batches that have not come although later ones have."""
        now = time.monotonic()
        missing = self._listener.missing()
        self._gaps = {rank: self._gaps.get(rank, now) for rank in missing}
        late = [rank for rank, since in self._gaps.items() if now - since > 2 * _TICK_SECONDS]
        self._ask_again(late, missing)

    def _ask_again(self, ranks: Iterable[int], missing: dict[int, int]) -> None:
        for rank in ranks:
            content = {"run_id": self._run_id, "since": missing[rank]}
            for reply in self._connection.request([self._group.engines[rank]], wire.HISTORY, content).values():
                for batch in reply.get("batches", ()):
                    self._listener.take_batch(batch)

    def _collect_last_records(self) -> None:
        """Results travel on another path than records: waits until all that the ranks published is here."""
        deadline = time.monotonic() + _LAST_RECORDS_SECONDS
        expected = set(self._results)
        while not expected <= self._listener.done and time.monotonic() < deadline:
            self._wake.wait(0.01)
            self._wake.clear()
            self._refill_gaps()
        self._listener.give_up_waiting()


def _bare(reply: dict[str, Any]) -> dict[str, Any]:
    """A reply without what the channel adds."""
    return {name: value for name, value in reply.items() if name != "status"}
