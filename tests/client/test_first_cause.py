from gpulayer_nb.client.first_cause import RankLoss, describe_failure, describe_loss, first_failure
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.records.record import RankFailed
from gpulayer_nb.records.worker_state import EngineDeath

PLACE = Topology(2, 2).place(3)


def failure(rank, time, consequence=False, **more):
    return RankFailed(time=time, rank=rank, error_type="ValueError", message="bad sample 17", consequence=consequence, **more)


def test_an_echo_is_never_the_cause_even_if_it_came_first():
    assert first_failure([failure(0, 1.0, consequence=True), failure(3, 2.0), failure(1, 3.0)]).rank == 3


def test_if_all_are_echoes_the_earliest_is_shown():
    assert first_failure([failure(2, 5.0, consequence=True), failure(1, 4.0, consequence=True)]).rank == 1
    assert first_failure([]) is None


def test_a_failure_says_who_where_and_what_to_do():
    text = describe_failure(failure(3, 0.0, cell=4, cell_line=18), PLACE, "b", others_up=4, world_size=4)
    assert text.startswith("ValueError: bad sample 17 — rank 3 (node 1, local rank 1, worker b), in cell 4 line 18.")
    assert "All 4 engines are up" in text
    assert "`%%ranks 3`" in text


def test_a_killed_rank_is_named_with_pid_and_signal():
    death = EngineDeath(slot=3, pid=48219, signal=9, exit_code=None, expected=False)
    text = describe_loss(RankLoss(PLACE, "b", 48219, death), released=3)
    assert text.startswith("Rank 3 (node 1, local rank 1, worker b, pid 48219) was killed by signal 9, often out of memory.")
    assert "The other 3 ranks were released." in text


def test_other_ends_are_named_as_they_were():
    segfault = EngineDeath(slot=3, pid=1, signal=11, exit_code=None, expected=False)
    assert "was ended by signal 11 (SIGSEGV)" in describe_loss(RankLoss(PLACE, "b", 1, segfault), released=3)
    left = EngineDeath(slot=3, pid=1, signal=None, exit_code=5, expected=False)
    assert "ended with exit code 5" in describe_loss(RankLoss(PLACE, "b", 1, left), released=3)
