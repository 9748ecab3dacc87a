"""Where a name of the notebook was written: the text of the statement in the latest cell that binds it.

Runs in the kernel. Owns the search through the cells. Must not know values.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence


class CellHistory:
    """Args: cells: plain Python of the cells that ran, oldest first; one that does not parse is passed over."""

    def __init__(self, cells: Sequence[str]) -> None:
        self._statements: list[tuple[ast.stmt, str]] = []  # newest first
        for cell in cells:
            try:
                tree = ast.parse(cell)
            except SyntaxError:
                continue
            lines = cell.splitlines()
            for statement in tree.body:
                self._statements.insert(0, (statement, _text(statement, lines)))

    def import_of(self, name: str) -> str | None:
        """`from torch.utils.data import DataLoader`: the import that gave a name, alone on its line."""
        for statement, _ in self._statements:
            for node in ast.walk(statement):
                if isinstance(node, (ast.Import, ast.ImportFrom)) and (found := _alone(node, name)):
                    return found
        return None

    def definition(self, name: str) -> str | None:
        """The `def` or `class` of that name, with its decorators."""
        for statement, text in self._statements:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and statement.name == name:
                return text
        return None

    def assignment(self, name: str) -> tuple[str, ast.expr] | None:
        """`name = …`, the latest, and what is assigned; None if it was bound otherwise."""
        for statement, text in self._statements:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target: ast.expr = statement.targets[0]
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                target = statement.target
            else:
                continue
            if isinstance(target, ast.Name) and target.id == name and statement.value is not None:
                return text, statement.value
        return None


def _text(statement: ast.stmt, lines: list[str]) -> str:
    """The whole lines of a statement; two statements on one line are told apart."""
    first = min([statement.lineno, *(node.lineno for node in getattr(statement, "decorator_list", ()))])
    whole = lines[first - 1 : statement.end_lineno]
    if statement.col_offset or (statement.end_col_offset or 0) < len(whole[-1].split("#")[0].rstrip()):
        return ast.unparse(statement)
    return "\n".join(whole)


def _alone(node: ast.Import | ast.ImportFrom, name: str) -> str | None:
    for alias in node.names:
        if (alias.asname or alias.name.partition(".")[0]) != name:
            continue
        renamed = f" as {alias.asname}" if alias.asname else ""
        if isinstance(node, ast.Import):
            return f"import {alias.name}{renamed}"
        if node.module and not node.level and alias.name != "*":
            return f"from {node.module} import {alias.name}{renamed}"
    return None
