import pytest

from gpulayer_nb.client.script_error import BadEnd, describe, first_cause, how, script_error, without_noise
from gpulayer_nb.plan.topology import Topology

RAISED = """\
epoch 1
[rank3]: Traceback (most recent call last):
[rank3]:   File "/home/ada/train.py", line 40, in <module>
[rank3]:     main()
[rank3]:   File "/home/ada/train.py", line 12, in main
[rank3]:     model(batch)
[rank3]:   File "/usr/lib/python3/site-packages/torch/nn/modules/module.py", line 1751, in _call_impl
[rank3]:     return forward_call(*args, **kwargs)
[rank3]: ValueError: shapes (3, 4) and
[rank3]: (5, 6) do not fit
"""
CUT = """\
Traceback (most recent call last):
  File "/home/ada/train.py", line 13, in main
    dist.barrier()
RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:36053.
"""
PLACES = Topology(2, 2).places()


def end(rank, time, code=1, said=""):
    return BadEnd(PLACES[rank], "b", code, time, script_error(said))


def test_the_users_own_lines_are_kept_and_those_of_libraries_counted():
    error = script_error(RAISED)
    assert (error.error_type, error.message) == ("ValueError", "shapes (3, 4) and\n(5, 6) do not fit")
    assert (error.file, error.line) == ("/home/ada/train.py", 12)
    assert "model(batch)" in error.text and "_call_impl" not in error.text and "[rank3]" not in error.text
    assert "1 lines of libraries" in error.text


def test_a_file_that_does_not_compile_names_its_line():
    error = script_error("  File \"/home/ada/train.py\", line 3\n    if x\n        ^\nSyntaxError: expected ':'\n")
    assert (error.error_type, error.line) == ("SyntaxError", 3)


@pytest.mark.parametrize("said", ["", "only a warning\n", "Traceback (most recent call last):\n"])
def test_without_a_traceback_there_is_no_error(said):
    assert script_error(said) is None


def test_the_first_cause_is_not_the_rank_that_lost_its_peer_even_if_that_one_ended_earlier():
    ends = [end(0, 1.0, said=CUT), end(2, 1.1, code=-15), end(3, 1.2, said=RAISED), end(1, 1.3, code=-6)]
    assert first_cause(ends).place.rank == 3


def test_a_rank_that_was_killed_is_the_cause_of_what_its_peers_say():
    assert first_cause([end(0, 1.0, said=CUT), end(1, 1.5, code=-9)]).place.rank == 1


def test_of_echoes_alone_the_one_that_says_something_is_shown():
    assert first_cause([end(0, 1.0, code=-15), end(1, 2.0, said=CUT)]).place.rank == 1
    assert first_cause([]) is None


def test_one_paragraph_says_what_who_where_and_what_next():
    told = describe(end(3, 1.0, said=RAISED), "train.py", {0: -15, 1: -15, 2: -15, 3: 1})
    assert told == (
        "ValueError: shapes (3, 4) and — rank 3 (node 1, local rank 1, worker b), in train.py line 12, exit code 1. "
        "The other 3 ranks were ended. Next: correct train.py, or read all that a rank wrote in `run.logs[3]`."
    )


def test_a_rank_that_torch_aborts_after_its_traceback_is_told_by_the_traceback():
    cause = end(3, 1.0, code=-6, said=RAISED)
    assert not cause.is_secondary and cause.shell_code == 1
    told = describe(cause, "train.py", {0: -15, 1: -15, 2: -15, 3: -6})
    assert "in train.py line 12, exit code 1, then signal 6 (SIGABRT) while it was ending. The other 3 ranks" in told
    assert [end(1, 1.0, code=code).shell_code for code in (7, -9, -6)] == [7, 137, 134]


def test_a_rank_without_words_is_told_by_its_signal():
    assert how(-9) == "signal 9 (SIGKILL), often out of memory"
    assert describe(end(1, 1.0, code=-11), "train.py", {0: 0, 1: -11}).startswith(
        "Rank 1 (node 0, local rank 1, worker b) ended with signal 11 (SIGSEGV) and left no traceback."
    )


def test_a_warning_without_meaning_is_left_out():
    noise = "[W1201 03:24:46.932962518 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3\n"
    assert without_noise(f"{noise}kept\n{noise}") == "kept\n"


def test_a_rank_that_ended_without_a_word_while_its_launch_was_being_ended_is_no_cause():
    late = BadEnd(PLACES[0], "a", 1, 1.0, None, is_late=True)
    assert late.is_secondary
    assert first_cause([late, end(2, 1.5, code=3)]).place.rank == 2
    assert not BadEnd(PLACES[0], "a", 1, 1.0, script_error(RAISED), is_late=True).is_secondary
