from gpulayer_nb.client.hang_report import report
from gpulayer_nb.records.whereabouts import Frame, Whereabouts


def at(rank, collective=None, *, busy=True, entered=1, line=5, function="<module>", step=0, inner=None):
    stack = (Frame(function=function, line=line, file="cell", cell=4),)
    if inner:
        stack += (Frame(function=inner, line=1, file="/x/torch/autograd/graph.py"),)
    return Whereabouts(rank=rank, busy=busy, collective=collective, entered=entered, global_step=step, stack=stack)


def who(rank):
    return f"rank {rank}"


def test_a_rank_that_does_something_else_is_named_with_its_place():
    ranks = [at(0, "all_reduce"), at(1, "all_reduce"), at(2, function="load_sample", line=12), at(3, "all_reduce")]
    found = report(ranks, [], who)
    assert found.is_blocked
    assert found.verdict == (
        "Ranks 0, 1 and 3 wait in all_reduce for others. Rank 2 has not entered all_reduce: it is in load_sample, cell 4 line 12."
    )
    assert "  rank 2: in load_sample, cell 4 line 12" in found.table


def test_a_rank_that_has_left_is_named():
    found = report([at(0, "barrier"), at(1, busy=False)], [], who)
    assert found.verdict == "Rank 0 waits in barrier for others. Rank 1 has left the cell and will not enter it."


def test_the_gradient_exchange_of_a_backward_pass_is_known():
    found = report([at(0, inner="_engine_run_backward", step=6), at(1, step=6)], [], who)
    assert found.verdict.startswith("Rank 0 waits in the gradient exchange for others.")
    assert "rank 0: step 7, waits in the gradient exchange, cell 4 line 5" in found.table


def test_ranks_in_different_collectives_are_told_apart():
    found = report([at(0, "all_reduce", entered=3), at(1, "broadcast", entered=2)], [], who)
    assert found.is_blocked
    assert "rank 0 in all_reduce, its 3rd" in found.verdict
    assert "rank 1 in broadcast, its 2nd" in found.verdict


def test_ranks_that_moved_between_two_looks_are_not_stuck_wherever_they_were_seen():
    earlier = [at(0, "all_reduce", entered=28, step=80), at(1, inner="_engine_run_backward", entered=28, step=80)]
    now = [at(0, "all_reduce", entered=29, step=84), at(1, inner="_engine_run_backward", entered=28, step=80)]
    found = report(now, [], who, earlier)
    assert found.verdict == "The ranks go on: nobody is stuck."
    assert not found.is_blocked


def test_one_rank_that_moves_while_the_others_wait_is_still_told():
    earlier = [at(0, "all_reduce", step=6), at(1, step=6, entered=1)]
    now = [at(0, "all_reduce", step=6), at(1, step=7, entered=1)]
    assert report(now, [], who, earlier).is_blocked


def test_a_gradient_exchange_that_ended_between_two_looks_is_seen_by_the_line():
    now = [at(0, inner="_engine_run_backward", line=5), at(1, line=4)]
    assert not report(now, [], who, [at(0, line=3), at(1, line=4)]).is_blocked
    assert report(now, [], who, [at(0, inner="_engine_run_backward", line=5), at(1, line=2)]).is_blocked


def test_work_and_a_slow_network_are_no_dead_lock():
    assert not report([at(0), at(1)], [], who).is_blocked
    assert not report([at(0, "all_reduce"), at(1, "all_reduce")], [], who).is_blocked


def test_a_rank_that_does_not_answer_is_the_first_thing_to_know():
    found = report([at(0, "all_reduce")], [1], who)
    assert found.verdict == "Rank 1 does not answer."
    assert found.is_blocked
