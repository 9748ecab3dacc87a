"""Which globals the functions inside a statement or expression load when they run.

Runs in the kernel. Owns the compiling of one piece of a cell. Must not know the cell around it.
"""

from __future__ import annotations

import ast

from gpulayer_nb.shipping.code_globals import global_names, nested_codes

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def body_names(node: ast.AST) -> set[str]:
    """Globals that functions in this statement or expression load when they run, found by compiling it alone."""
    if isinstance(node, ast.ClassDef):
        node = ast.ClassDef(**{**dict(ast.iter_fields(node)), "bases": [], "keywords": [], "decorator_list": []})
    elif isinstance(node, _FUNCTIONS):
        node = type(node)(**{**dict(ast.iter_fields(node)), "decorator_list": []})
    statement = node if isinstance(node, ast.stmt) else ast.Expr(node)  # type: ignore[arg-type]  # a lambda is an expression
    module = ast.fix_missing_locations(ast.Module([statement], []))
    try:
        code = compile(module, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError):
        return set()
    bodies = list(nested_codes(code))
    if isinstance(node, ast.ClassDef):  # its own body is not run later: only what is nested in it
        bodies = [inner for body in bodies for inner in nested_codes(body)]
    names = {name for body in bodies for name in global_names(body)}
    if isinstance(node, ast.Expr):  # 3.12 has no code object for a comprehension: its loads are the expression's own
        names.update(global_names(code))
    return names
