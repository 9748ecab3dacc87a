import pytest

from gpulayer_nb.api.verdict import judge
from gpulayer_nb.client.driver import DriverOutcome
from gpulayer_nb.client.first_cause import RankLoss
from gpulayer_nb.client.hang_report import HangReport
from gpulayer_nb.client.rank_group import ReadyGroup
from gpulayer_nb.errors import RunFailed, RunStopped, UsageError
from gpulayer_nb.plan.assignment import RankAssignment
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.records.record import RankFailed
from gpulayer_nb.records.run_spec import GroupSpec, RankResult
from gpulayer_nb.records.worker_state import EngineDeath

SHAPE = Topology(2, 2)
GROUP = ReadyGroup(
    SHAPE,
    tuple(RankAssignment(place, f"gpl:b:host:{place.rank}:{100 + place.rank}:x", "b") for place in SHAPE.places()),
    GroupSpec(key="k", backend="gloo", master_addr="127.0.0.1", master_port=1, timeout_seconds=1.0),
    "cpu",
    fresh=False,
)


def failed(rank, kind="ValueError", time=1.0, echo=False, step=7):
    return RankFailed(
        time=time, rank=rank, error_type=kind, message=f"of {rank}", traceback=f"trace {rank}", consequence=echo, global_step=step
    )  # fmt: skip


def outcome(states="finished", *, losses=(), stopped_by="", hang=None, step=0):
    results = {
        rank: RankResult(rank=rank, state=states, global_step=step)
        for rank in range(4)
        if rank not in {x.place.rank for x in losses}
    }
    return DriverOutcome(results, tuple(losses), stopped_by, hang, group_is_whole=True)


def lost(rank, killed_by_us=False):
    death = EngineDeath(slot=rank, pid=100 + rank, signal=9, exit_code=None, expected=killed_by_us)
    return RankLoss(SHAPE.place(rank), "b", 100 + rank, death, killed_by_us)


def test_a_run_in_which_nothing_went_wrong_is_finished():
    verdict = judge(GROUP, outcome(), [], "train")
    assert (verdict.state, verdict.error) == ("finished", None)


def test_the_first_own_error_is_the_cause_and_all_tracebacks_are_kept():
    verdict = judge(GROUP, outcome("failed"), [failed(0, time=1.0, echo=True), failed(3, time=2.0)], "train")
    assert isinstance(verdict.error, RunFailed)
    assert str(verdict.error).startswith("ValueError: of 3 — rank 3 (node 1, local rank 1, worker b)")
    assert verdict.error.tracebacks == {0: "trace 0", 3: "trace 3"}


def test_a_death_goes_before_its_echoes():
    verdict = judge(GROUP, outcome("failed", losses=[lost(1)]), [failed(0, echo=True)], "train")
    assert "was killed by signal 9" in str(verdict.error)


def test_an_error_before_a_death_is_the_cause():
    verdict = judge(GROUP, outcome("failed", losses=[lost(1)]), [failed(0)], "train")
    assert str(verdict.error).startswith("ValueError: of 0")


@pytest.mark.parametrize("step", [None, 0])
def test_a_users_mistake_found_before_the_first_step_is_refused_as_what_it_is(step):
    verdict = judge(GROUP, outcome("failed"), [failed(2, kind="UsageError", step=step)], "train")
    assert isinstance(verdict.error, UsageError)
    assert str(verdict.error) == "of 2"
    assert verdict.refused


def test_a_stop_says_what_was_kept():
    verdict = judge(GROUP, outcome("stopped", stopped_by="user", step=12), [], "train")
    assert verdict.state == "stopped"
    assert isinstance(verdict.error, RunStopped)
    assert str(verdict.error) == "stopped after step 12 on 4 ranks; the model has the weights of that step."
    interrupted = judge(GROUP, outcome("failed", stopped_by="user"), [failed(1, kind="KeyboardInterrupt", echo=True)], "ranks")
    assert str(interrupted.error) == "stopped on 4 ranks; variables are kept."


def test_ranks_that_had_to_be_ended_by_a_stop_are_no_failure():
    verdict = judge(GROUP, outcome("failed", losses=[lost(1, killed_by_us=True)], stopped_by="user"), [], "ranks")
    assert verdict.state == "stopped"
    assert "1 rank did not answer, so their engines were ended" in str(verdict.error)


def test_a_time_limit_shows_who_waited_for_whom():
    hang = HangReport("Rank 0 waits.", "  rank 0: waits", is_blocked=True)
    verdict = judge(GROUP, outcome("failed", stopped_by="timeout", hang=hang), [failed(0, echo=True)], "ranks")
    assert verdict.state == "failed"
    assert str(verdict.error).endswith("the next cell gets a new group.\nRank 0 waits.\n  rank 0: waits")
