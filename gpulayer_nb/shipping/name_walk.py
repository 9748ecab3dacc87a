"""The names that one point of a cell binds and loads: state, expressions, deferred bodies.

Runs in the kernel. Owns what it means to load or bind a name. Must not know statements or any namespace.
"""

from __future__ import annotations

import ast
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpulayer_nb.shipping.body_names import body_names
from gpulayer_nb.shipping.magic_names import code_of_magic, expanded_names

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass
class State:
    """What is certainly bound at one point of the walk. `ended`: control does not get past this point."""

    bound: set[str] = field(default_factory=set)
    ended: bool = False

    def copy(self) -> State:
        return State(set(self.bound), self.ended)


def join(states: Iterable[State]) -> State:
    """The state where several ways meet: bound is what every way that gets here has bound."""
    alive = [state for state in states if not state.ended]
    if not alive:
        return State(set(), True)
    return State(set.intersection(*(state.bound for state in alive)))


class NameWalk(ABC):
    """What a walk has found so far.

    The body of a function runs when somebody calls it, and nobody can call it without loading its name (or that of the class
    it is in). So what a body needs waits in `_deferred` under that name until the name is loaded, or until the cell ends.
    """

    def __init__(self) -> None:
        self.certain: set[str] = set()
        self.possible: set[str] = set()
        self.maybe_bound: set[str] = set()
        self._star = False  # a star import was seen: any name may be bound
        self._deferred: dict[str, set[str]] = {}
        self._in_loop = False

    @abstractmethod
    def block(self, statements: list[ast.stmt], state: State) -> State:
        """Walk statements; returns what is bound after them."""

    def end(self, state: State) -> None:
        """Later cells and the fit may call whatever the cell defined."""
        self._need(self._deferred, state)

    def _expressions(self, node: ast.AST, state: State) -> None:
        for child in ast.iter_child_nodes(node):
            self._expression(child, state)

    def _expression(self, node: ast.AST, state: State) -> None:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self._load(node.id, state)
        elif isinstance(node, ast.NamedExpr):
            self._expression(node.value, state)
            self._target(node.target, state)
        elif isinstance(node, ast.Lambda):
            self._function_outside(node.args, state)
            self._need(body_names(node), state)
        elif isinstance(node, _COMPREHENSIONS):
            self._comprehension(node, state)
        elif isinstance(node, ast.BoolOp):
            self._expression(node.values[0], state)
            for value in node.values[1:]:
                self._maybe(value, state)
        elif isinstance(node, ast.IfExp):
            self._expression(node.test, state)
            self._maybe(node.body, state)
            self._maybe(node.orelse, state)
        elif isinstance(node, ast.Compare):
            self._expression(node.left, state)
            self._expression(node.comparators[0], state)
            for comparator in node.comparators[1:]:
                self._maybe(comparator, state)
        else:
            self._expressions(node, state)
            if isinstance(node, ast.Call):
                self._magic(node, state)

    def _maybe(self, node: ast.expr, state: State) -> None:
        """An expression that may not be evaluated: its walrus targets are not certainly bound afterwards."""
        self._expression(node, state.copy())

    def _comprehension(self, node: ast.AST, state: State) -> None:
        """Its own scope, but for the first iterable and walrus targets."""
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]  # each of _COMPREHENSIONS has it
        self._expression(generators[0].iter, state)
        self.maybe_bound.update(inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr))
        self._need(body_names(ast.Expr(node)), state)  # type: ignore[arg-type]  # a comprehension is an expression
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call):
                self._magic(inner, state.copy())

    def _function_outside(self, arguments: ast.arguments, state: State, *more: ast.expr) -> None:
        """Defaults and annotations are evaluated where the function is written."""
        every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        annotations = [a.annotation for a in every if a is not None and a.annotation is not None]
        for value in (*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None), *annotations, *more):
            self._expression(value, state)

    def _magic(self, node: ast.Call, state: State) -> None:
        """A call that IPython's syntax was turned into carries code, or `{name}` and `$name`, in its strings."""
        code, text = code_of_magic(node)
        if code:
            with contextlib.suppress(SyntaxError):
                state.bound.update(self.block(ast.parse(code).body, state.copy()).bound)
        for name in expanded_names(text):
            self._load(name, state, certain=False)

    def _target(self, node: ast.expr, state: State) -> None:
        """Bind what an assignment binds; `a[i]` and `a.b` load `a`."""
        if isinstance(node, ast.Name):
            self._bind(node.id, state)
        elif isinstance(node, (ast.Tuple, ast.List)):
            for element in node.elts:
                self._target(element, state)
        elif isinstance(node, ast.Starred):
            self._target(node.value, state)
        else:
            self._expressions(node, state)

    def _bind(self, name: str, state: State) -> None:
        state.bound.add(name)
        self.maybe_bound.add(name)

    def _load(self, name: str, state: State, *, certain: bool = True) -> None:
        self._note(name, state, certain)
        self._activate(name, state)

    def _note(self, name: str, state: State, certain: bool) -> None:
        """Record the name if it may have to come from outside."""
        if name not in state.bound:
            sure = certain and not self._star and name not in self.maybe_bound
            (self.certain if sure else self.possible).add(name)

    def _defer(self, names: list[str], needs: Iterable[str]) -> None:
        for name in names:
            self._deferred.setdefault(name, set()).update(needs)

    def _activate(self, name: str, state: State) -> None:
        """The function or class `name` may run here. Not for good: elsewhere fewer names may be bound."""
        self._need(self._deferred.get(name, ()), state)

    def _need(self, names: Iterable[str], state: State) -> None:
        """A body that loads these names may run here, and so may the bodies behind these names."""
        waiting = sorted(names)
        seen = set(waiting)
        while waiting:
            name = waiting.pop()
            self._note(name, state, True)
            more = sorted(self._deferred.get(name, set()) - seen)
            seen.update(more)
            waiting.extend(more)
