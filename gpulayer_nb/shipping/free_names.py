"""Which names a cell needs from outside: a pure function of its Python source.

Runs in the kernel. Owns the question.
Must not know any namespace: whether a name exists is the caller's business.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gpulayer_nb.shipping.name_walk import State
from gpulayer_nb.shipping.statement_walk import StatementWalk


@dataclass(frozen=True)
class NeededNames:
    """Names a cell asks for before it binds them.

    `certain`: nothing before could have bound them. `possible`: something before may have (a branch, a loop, a star import),
    so a caller that cannot provide one need not complain.
    """

    certain: frozenset[str] = frozenset()
    possible: frozenset[str] = frozenset()


def free_names(python_source: str) -> frozenset[str]:
    """Every name that the source, already free of IPython syntax, may need from outside; builtins it uses are among them."""
    needed = needed_names(python_source)
    return needed.certain | needed.possible


def needed_names(python_source: str) -> NeededNames:
    """The names of `free_names`, apart by how sure it is. A source with a syntax error needs nothing: it will not run."""
    try:
        tree = ast.parse(python_source)
    except SyntaxError:
        return NeededNames()
    walk = StatementWalk()
    state = walk.block(tree.body, State())
    walk.end(state)
    return NeededNames(frozenset(walk.certain), frozenset(walk.possible - walk.certain))


def bound_names(python_source: str) -> frozenset[str]:
    """Names that running the source may bind at top level, star imports excepted."""
    try:
        tree = ast.parse(python_source)
    except SyntaxError:
        return frozenset()
    walk = StatementWalk()
    walk.block(tree.body, State())
    return frozenset(walk.maybe_bound)


def attributes_in(python_source: str) -> frozenset[str]:
    """Every name that the source uses as an attribute."""
    try:
        tree = ast.parse(python_source)
    except SyntaxError:
        return frozenset()
    return frozenset(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))
