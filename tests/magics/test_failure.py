import os
import signal
import time

import pytest

from gpulayer_nb.process import start_ticks


@pytest.fixture(autouse=True)
def _four_ranks(notebook):
    notebook.ok("%%ranks --nodes 2 --devices 2\nkeep = 40 + rank")


def still_works(notebook):
    text = notebook.ok("%%ranks\nx = torch.ones(1); dist.all_reduce(x)\n(keep, int(x))")
    assert text.splitlines() == [f"[rank {r}] Out: ({40 + r}, 4)" for r in range(4)]


def test_a_rank_that_raises_ends_the_cell_with_the_users_own_line(notebook):
    result = notebook.run(
        "%%ranks\nfor step in range(6):\n    if rank == 3 and step == 3:\n        raise ValueError('bad sample 17')\n"
        "    dist.all_reduce(torch.ones(10))"
    )
    assert result.seconds < 3
    assert result.error.startswith("RunFailed: ValueError: bad sample 17 — rank 3 (node 1, local rank 1, worker local), in cell ")
    assert " line 4." in result.error
    assert "All 4 engines are up" in result.error
    assert "----> 4" in result.traceback
    assert "Connection" not in result.error
    still_works(notebook)


def test_what_a_rank_printed_before_its_error_is_shown(notebook):
    result = notebook.run("%%ranks\nif rank == 2:\n    print('the last words')\n    1 / 0\ndist.barrier()")
    assert "[rank 2] the last words" in result.text
    assert "ZeroDivisionError" in result.error
    still_works(notebook)


def test_an_error_in_a_shipped_function_shows_the_line_of_the_cell_it_came_from(notebook):
    notebook.ok("def deep(v):\n    w = v + 1\n    raise KeyError(w)")
    result = notebook.run("%%ranks\nif rank == 1:\n    deep(1)\ndist.barrier()")
    assert result.error.startswith("RunFailed: KeyError: 2 — rank 1")
    assert " line 3." in result.error
    assert "raise KeyError(w)" in result.traceback
    still_works(notebook)


def test_a_syntax_error_is_the_users_and_nothing_hangs(notebook):
    result = notebook.run("%%ranks\nx = = 1")
    assert "SyntaxError" in result.error
    still_works(notebook)


def test_all_ranks_raising_at_once_is_one_error(notebook):
    result = notebook.run("%%ranks\nraise RuntimeError(f'mine {rank}')")
    assert result.error.startswith("RunFailed: RuntimeError: mine ")
    assert len([o for o in result.outputs if o["kind"] == "error"]) == 1
    still_works(notebook)


@pytest.mark.parametrize("how", ["SIGKILL", "SIGSEGV"])
def test_a_rank_that_dies_is_named_with_its_signal_and_replaced(notebook, how):
    result = notebook.run(
        "%%ranks\nimport os, signal\nfor step in range(6):\n    if rank == 1 and step == 2:\n"
        f"        os.kill(os.getpid(), signal.{how})\n"
        "    dist.all_reduce(torch.ones(10))"
    )
    number = int(getattr(signal, how))
    assert result.seconds < 4
    assert result.error.startswith("RunFailed: Rank 1 (node 0, local rank 1, worker local, pid ")
    assert ("was killed by signal 9, often out of memory" if number == 9 else f"was ended by signal {number}") in result.error
    text = notebook.ok("%%ranks\nx = torch.ones(1); dist.all_reduce(x); int(x)", limit_seconds=20)
    assert "[rank 1] Out: 4" in text
    assert "its variables are gone" in text


def test_a_rank_that_exits_is_named_with_its_code(notebook):
    result = notebook.run("%%ranks\nimport os\nif rank == 2:\n    os._exit(5)\ndist.barrier()")
    assert "Rank 2" in result.error
    assert "ended with exit code 5" in result.error


def test_a_rank_that_ends_between_two_cells_is_replaced(notebook):
    notebook.ok("%%ranks --as pids\nimport os; os.getpid()")
    pid = int(notebook.ok("print(pids[3])"))
    os.kill(pid, signal.SIGKILL)
    while start_ticks(pid) is not None:
        time.sleep(0.01)
    assert notebook.ok("%%ranks\nx = torch.ones(1); dist.all_reduce(x); int(x)", limit_seconds=20).count("Out: 4") == 4


def test_a_rank_that_stands_still_is_noticed_and_replaced(notebook):
    result = notebook.run("%%ranks\nimport os, signal\nif rank == 2:\n    os.kill(os.getpid(), signal.SIGSTOP)\ndist.barrier()")
    assert result.seconds < 10
    assert result.error.startswith("RunFailed: Rank 2 (node 1, local rank 0, worker local, pid ")
    assert notebook.ok("%%ranks\nx = torch.ones(1); dist.all_reduce(x); int(x)", limit_seconds=20).count("Out: 4") == 4


def test_every_ranks_traceback_is_kept_in_the_error_and_in_the_run_folder(notebook):
    notebook.run("%%ranks\nif rank == 3:\n    raise ValueError('bad sample 17')\ndist.all_reduce(torch.ones(10))")
    assert notebook.ok("e = glt.runs[-1].error; print(sorted(e.tracebacks), 'bad sample 17' in e.tracebacks[3])").strip() == (
        "[0, 1, 2, 3] True"
    )
    text = notebook.ok("print((glt.runs[-1].folder / 'tracebacks.txt').read_text())")
    assert all(f"rank {rank}\n" in text for rank in range(4))
    assert "\x1b" not in text


def test_a_cell_that_only_looks_at_the_ranks_leaves_no_folder_but_its_output(notebook):
    notebook.ok("%%ranks\nprint('seen', rank)")
    assert (
        notebook.ok("print(glt.runs[-1].folder.exists(), glt.runs[-1].logs)").strip()
        == "False ['seen 0\\n', 'seen 1\\n', 'seen 2\\n', 'seen 3\\n']"
    )
