import contextlib
import re

import pytest
from IPython.core.interactiveshell import InteractiveShell

from gpulayer_nb.engine.cell import run_cell
from gpulayer_nb.engine.failure import is_echo, user_line


@pytest.fixture(scope="module")
def shell():
    return InteractiveShell()


def run(shell, source, cell=7):
    return run_cell(shell, source, cell, contextlib.nullcontext)


def test_the_last_expressions_value_is_kept_and_not_printed(shell, capsys):
    outcome = run(shell, "# %%ranks\nx = 20\nx + 1")
    assert (outcome.has_value, outcome.value) == (True, 21)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("source", ["x = 1", "None", "21;", "21; # shown nowhere", "21 ;\n\n", ""])
def test_some_cells_have_no_value(shell, source):
    assert not run(shell, source).has_value


def test_a_semicolon_in_a_comment_or_string_hides_nothing(shell):
    assert run(shell, "21  # ends with ;").value == 21
    assert run(shell, "'a;'").value == "a;"


def test_an_error_carries_its_line_in_the_notebooks_cell(shell):
    outcome = run(shell, "# %%ranks\ndef f():\n    raise ValueError('bad')\nf()", cell=12)
    assert isinstance(outcome.error, ValueError)
    assert user_line(shell, outcome.error.__traceback__) == (12, 3)
    assert re.search(r"Cell In\s?\[12\]|ipython-input-12-", re.sub(r"\x1b\[[0-9;]*m", "", outcome.traceback))


def test_a_syntax_error_and_ipython_syntax_work_as_in_a_notebook(shell):
    assert isinstance(run(shell, "x = = 1").error, SyntaxError)
    assert run(shell, "%%capture said\nprint('hi')").error is None
    assert shell.user_ns["said"].stdout == "hi\n"


@pytest.mark.parametrize(
    ("error", "echo"),
    [
        (RuntimeError("[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:3422"), True),
        (RuntimeError("Connection reset by peer"), True),
        (KeyboardInterrupt(), True),
        (RuntimeError("CUDA out of memory"), False),
        (ValueError("Connection closed by peer"), False),
    ],
)
def test_what_only_says_that_another_rank_failed_is_an_echo(error, echo):
    assert is_echo(error, group_was_cut=False) is echo


def test_an_error_is_announced_before_it_is_drawn(shell):
    announced = []

    def announce(error):
        announced.append((type(error), shell._last_traceback))
        return True

    outcome = run_cell(shell, "1 / 0", 3, contextlib.nullcontext, announce)
    assert announced == [(ZeroDivisionError, None)]
    assert "ZeroDivisionError" in outcome.traceback


def test_an_error_that_only_follows_from_another_is_not_drawn(shell):
    outcome = run_cell(shell, "1 / 0", 3, contextlib.nullcontext, lambda error: False)
    assert isinstance(outcome.error, ZeroDivisionError)
    assert outcome.traceback == ""
