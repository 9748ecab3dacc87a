"""Who is which rank, and in what words: decided from an observation alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpulayer_nb.records.cluster_folder import ClusterFolder
from gpulayer_nb.records.rank_stats import RankStats
from gpulayer_nb.records.record import RankFailed, RankStatus, RunStarted
from gpulayer_nb.records.wire import EngineIdentity
from gpulayer_nb.records.worker_state import EngineDeath, EngineState, WorkerState
from gpulayer_nb.server.cluster_rows import cluster_rows, identities
from gpulayer_nb.server.cluster_watch import usage_since
from gpulayer_nb.server.discovery import EMBEDDED, OPEN, FoundCluster
from gpulayer_nb.server.live_run import LiveRun
from gpulayer_nb.server.observation import Observation, Usage

NOW = 1000.0
FOLDER = ClusterFolder(Path("/run/gpulayer/local-1-abc"))


def worker(name: str = "local", slots: int = 2, **fields: Any) -> WorkerState:
    engines = tuple(EngineState(slot=s, pid=100 + s, ticks=1, uuid=f"gpl:{name}:h:{s}:{100 + s}:x") for s in range(slots))
    facts = {"torch": "2.13.0", "backends": ["gloo"]}
    return WorkerState(**{"worker": name, "pid": 9, "phase": "up", "facts": facts, "engines": engines, **fields})


def seen(**fields: Any) -> Observation:
    cluster = FoundCluster("local-1-abc", EMBEDDED, FOLDER.client_file, FOLDER)
    engines = {n: EngineIdentity("local", "h", n, 100 + n) for n in range(2)}
    return Observation(
        **{"cluster": cluster, "now": NOW, "is_connected": True, "workers": (worker(),), "engines": engines, **fields}
    )


def usage(pid: int, answered: float = NOW, **fields: Any) -> Usage:
    return Usage(RankStats(pid=pid, memory_bytes=94 << 20, machine_bytes=1 << 30, **fields), cpu=12.3, answered=answered)


def states(observation: Observation) -> list[str]:
    return [row["state"] for row in cluster_rows(observation)[1].values()]


def run(*records: Any) -> LiveRun:
    live = LiveRun("20260131-142305-3f2a", clock=lambda: NOW)
    live.apply(
        RunStarted(
            run_id=live.run_id, mode="train", num_nodes=2, devices=1, backend="gloo", accelerator="cpu", simulated=True,
            workers=("local", "local"), device_names=("cpu", "cpu"), pids=(101, 100),
        )
    )  # fmt: skip
    for record in records:
        live.apply(record)
    return live


def test_idle_engines_are_ranks_in_the_order_of_their_slots() -> None:
    row, ranks = cluster_rows(seen(usage={100: usage(100)}))
    assert (row["state"], row["run"], row["workers"][0]["facts"]) == ("idle", None, "127.0.0.1 · torch 2.13.0 · gloo")
    assert [(r["rank"], r["engine"], r["pid"], r["state"]) for r in ranks.values()] == [(0, 0, 100, "idle"), (1, 1, 101, "idle")]
    first = ranks["local-1-abc/local/0"]
    assert (first["cpu"], first["memory"], first["machine"], first["gpu"]) == (12, 94, 1024, None)


def test_a_run_says_which_process_is_which_rank() -> None:
    row, ranks = cluster_rows(seen(runs=(run(RankStatus(rank=0, state="running", global_step=7, samples_per_second=41.234)),)))
    assert (row["state"], row["run"]) == ("running", "20260131-142305-3f2a")
    second = ranks["local-1-abc/local/1"]
    assert (second["rank"], second["node"], second["step"], second["rate"], second["rates"]) == (0, 0, 7, 41.2, [41.2])
    assert ranks["local-1-abc/local/0"]["rank"] == 1


def test_a_cell_on_ranks_shows_who_is_at_work() -> None:
    assert states(seen(busy=frozenset({1}))) == ["idle", "running"]
    assert cluster_rows(seen(busy=frozenset({1})))[0]["state"] == "running"


def test_an_engine_that_is_not_registered_yet_is_starting() -> None:
    assert states(seen(workers=(worker(engines=(EngineState(slot=0, pid=100, ticks=1),)),))) == ["starting"]


def test_a_cluster_is_starting_until_torch_is_loaded() -> None:
    assert cluster_rows(seen(workers=(worker(phase="loading", slots=0),)))[0]["state"] == "starting"
    assert cluster_rows(seen(is_connected=False))[0]["state"] == "starting"


def test_a_rank_that_was_killed_says_how_and_what_comes_next() -> None:
    died = EngineDeath(slot=1, pid=101, signal=9, exit_code=None, expected=False)
    _, ranks = cluster_rows(seen(workers=(worker(slots=1, deaths=(died,)),)))
    gone = ranks["local-1-abc/local/1"]
    assert gone["state"] == "dead"
    assert gone["detail"] == "Ended by signal 9, often out of memory. It is replaced before the next run."


def test_a_rank_that_was_replaced_or_meant_to_end_is_not_dead() -> None:
    died = EngineDeath(slot=1, pid=77, signal=9, exit_code=None, expected=False)
    assert states(seen(workers=(worker(deaths=(died,)),))) == ["idle", "idle"]
    meant = EngineDeath(slot=5, pid=78, signal=9, exit_code=None, expected=True)
    assert states(seen(workers=(worker(deaths=(meant,)),))) == ["idle", "idle"]


def test_a_rank_waits_when_it_is_in_the_same_collective_for_more_than_a_second() -> None:
    busy = RankStats(pid=100, clock=5.0, cpu_seconds=1.0, collective="all_reduce", entered=8)
    first = usage_since(None, busy, NOW - 2)
    later = usage_since(first, RankStats(pid=100, clock=7.0, cpu_seconds=1.5, collective="all_reduce", entered=8), NOW)
    assert (first.cpu, later.cpu, later.waiting_seconds) == (None, 25.0, 2.0)
    _, ranks = cluster_rows(seen(usage={100: later}, busy=frozenset({0, 1}), asked=NOW - 1))
    assert (ranks["local-1-abc/local/0"]["state"], ranks["local-1-abc/local/0"]["detail"]) == ("waiting", "in all_reduce, 2 s")
    other = usage_since(later, RankStats(pid=100, clock=9.0, collective="all_reduce", entered=9), NOW)
    assert other.waiting_seconds == 0.0


def test_an_engine_that_does_not_answer_is_silent() -> None:
    observation = seen(usage={100: usage(100, answered=NOW - 4.2), 101: usage(101)}, asked=NOW - 60)
    assert states(observation) == ["silent", "idle"]
    assert cluster_rows(observation)[1]["local-1-abc/local/0"]["detail"] == "has not answered for 4 s"


def test_the_first_cause_marks_the_rank_that_raised() -> None:
    failed = run(RankFailed(rank=1, error_type="ValueError", message="bad", cell=4, cell_line=18))
    _, ranks = cluster_rows(seen(runs=(failed,)))
    assert (ranks["local-1-abc/local/0"]["state"], ranks["local-1-abc/local/0"]["detail"]) == (
        "failed",
        "ValueError, cell 4 line 18",
    )


def test_workers_of_an_open_cluster_say_what_is_free_and_how_others_join() -> None:
    folder = ClusterFolder(Path("/run/gpulayer/lab"))
    cluster = FoundCluster("lab", OPEN, folder.client_file, folder)
    row, ranks = cluster_rows(
        seen(cluster=cluster, workers=(worker("b~12ab34", slots=0), worker("a~56cd78", slots=1)), engines={})
    )
    assert [one["name"] for one in row["workers"]] == ["a", "b"]
    assert row["join"] == f"gpulayer worker start --controller {folder.engine_file}"
    assert list(ranks) == ["lab/a~56cd78/0"]


def test_engines_of_ipyparallel_are_shown_by_their_numbers() -> None:
    ours, foreign = identities({"gpl:a:h:0:5:x": 0, "gplw:a:y": 1, "8c0f-1122": 2})
    assert (list(ours), foreign) == ([0], (2,))
    _, ranks = cluster_rows(seen(workers=(), engines={}, foreign=(2,), busy=frozenset({2})))
    assert [(row["rank"], row["state"]) for row in ranks.values()] == [(2, "running")]
