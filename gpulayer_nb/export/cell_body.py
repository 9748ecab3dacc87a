"""A cell's own lines as they go into a script: IPython's syntax left out, or refused where the cell depends on it. Pure."""

from __future__ import annotations

import ast

from gpulayer_nb.errors import UsageError

_SHELL = "get_ipython"


def cell_body(source: str, python: str) -> str:
    """Args: source: the cell as typed, without the magic. python: the same as plain Python.

    Raises:
        UsageError: the cell uses the result of a magic.
    """
    try:
        ast.parse(source)
        return source.strip("\n")
    except SyntaxError:
        pass
    lines = python.splitlines()
    for statement in reversed(ast.parse(python).body):
        if not any(isinstance(node, ast.Name) and node.id == _SHELL for node in ast.walk(statement)):
            continue
        if not isinstance(statement, ast.Expr):
            raise UsageError(
                f"Line {statement.lineno} of the cell uses the result of an IPython magic, which a script has not. "
                "Nothing was written. Next: write that line in Python, run the cell, and export again."
            )
        first, last = statement.lineno - 1, statement.end_lineno or statement.lineno
        lines[first:last] = ["# left out: " + " ".join(line.strip() for line in lines[first:last])]
    return "\n".join(lines).strip("\n")
