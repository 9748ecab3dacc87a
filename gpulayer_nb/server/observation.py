"""All that is known of one cluster at one moment. Filled by a watch, read by `cluster_rows`; knows neither sockets nor JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpulayer_nb.records.rank_stats import RankStats
from gpulayer_nb.records.wire import EngineIdentity
from gpulayer_nb.records.worker_state import WorkerState
from gpulayer_nb.server.discovery import FoundCluster
from gpulayer_nb.server.live_run import LiveRun


@dataclass(frozen=True)
class Usage:
    """`cpu` in per cent of one processor over the last two answers; `waiting_seconds` in the same collective as before."""

    stats: RankStats
    cpu: float | None = None
    waiting_seconds: float = 0.0
    answered: float = 0.0  # this machine's clock


@dataclass(frozen=True)
class Observation:
    """`engines` and `foreign` by ipyparallel's number: ours, and those that are not; `busy` has the numbers at work."""

    cluster: FoundCluster
    now: float
    is_connected: bool = False
    trouble: str = ""
    workers: tuple[WorkerState, ...] = ()
    engines: Mapping[int, EngineIdentity] = field(default_factory=dict)
    foreign: tuple[int, ...] = ()
    busy: frozenset[int] = frozenset()
    usage: Mapping[int, Usage] = field(default_factory=dict)  # by pid
    asked: float | None = None  # since when engines have been asked for their usage
    runs: tuple[LiveRun, ...] = ()
    is_ours: bool = False  # started from the panel of this server
