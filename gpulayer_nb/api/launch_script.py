"""Which script a launch runs, and whether it can be one. Reads files and the running program; starts nothing."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

from gpulayer_nb.errors import UsageError

_SUFFIXES = (".py", ".pyw", "")


def is_rank() -> bool:
    """Whether this process is one of torchrun's ranks, whoever started torchrun."""
    return "TORCHELASTIC_RUN_ID" in os.environ and "RANK" in os.environ


def own_script() -> Path:
    """The script that is running.

    Raises:
        UsageError: none is: a notebook, an interactive interpreter.
    """
    path = getattr(sys.modules["__main__"], "__file__", None)
    if path is None or "ipykernel" in sys.modules:
        raise UsageError(
            "launch() without a script stands in the first line of a script, and launches that. "
            'Next: in a notebook name the script: `glt.launch("train.py", nodes=2, devices=2)`.'
        )
    return Path(path).resolve()


def checked_script(script: str | Path) -> Path:
    """The script's absolute path.

    Raises:
        UsageError: there is no such file, or it is not Python; says why.
    """
    path = Path(script).expanduser()
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(
            f"{script} {what} (looked in {Path.cwd()}). Nothing was started. Next: give the path of a Python script."
        )
    if path.suffix == ".ipynb":
        raise UsageError(
            f"{script} is a notebook, not a script. Nothing was started. "
            "Next: `%gpulayer export train.py` writes its last training cell as one."
        )
    if path.suffix not in _SUFFIXES:
        raise UsageError(f"{script} is not a Python file. Nothing was started. Next: give a script whose name ends in .py.")
    try:
        ast.parse(path.read_bytes(), filename=str(path))
    except SyntaxError as error:
        line = f" line {error.lineno}" if error.lineno else ""
        raise UsageError(f"{script}{line} is not Python: {error.msg}. Nothing was started. Next: correct that line.") from None
    except (ValueError, UnicodeDecodeError):
        raise UsageError(f"{script} is not a Python file. Nothing was started. Next: give a script.") from None
    return path.resolve()
