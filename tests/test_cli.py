"""The command line as a person meets it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import gpulayer_nb
from gpulayer_nb import cli
from gpulayer_nb.errors import PlanError, RunStopped


def gpulayer(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpulayer_nb", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_help_names_every_command() -> None:
    done = gpulayer("--help")
    assert done.returncode == 0, done.stderr
    assert "demo" in done.stdout


def test_version_is_the_packages() -> None:
    assert gpulayer("--version").stdout.strip() == f"gpulayer-nb {gpulayer_nb.__version__}"


def test_no_command_is_a_usage_error() -> None:
    done = gpulayer()
    assert done.returncode == 2
    assert "COMMAND" in done.stderr


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (PlanError("2 GPUs asked, 1 found."), 1, "gpulayer: 2 GPUs asked, 1 found.\n"),
        (RunStopped("Stopped after step 12."), 130, "gpulayer: Stopped after step 12.\n"),
        (KeyboardInterrupt(), 130, "gpulayer: stopped\n"),
    ],
)
def test_what_ends_a_command_is_one_line_and_an_exit_code(
    raised: BaseException, code: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Ending:
        """A subcommand, `end`, that raises."""

        @staticmethod
        def add_to(subcommands: cli.argparse._SubParsersAction) -> None:
            def run(chosen: object) -> int:
                raise raised

            subcommands.add_parser("end").set_defaults(run=run)

    monkeypatch.setattr(cli, "SUBCOMMANDS", (Ending,))
    assert cli.main(["end"]) == code
    assert capsys.readouterr().err == line
