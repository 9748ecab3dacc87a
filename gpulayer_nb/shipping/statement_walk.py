"""The walk over a cell's statements in the order of execution.

Runs in the kernel. Owns what each kind of statement does to the names. Must not know any namespace.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gpulayer_nb.shipping.body_names import body_names
from gpulayer_nb.shipping.name_walk import NameWalk, State, join


class StatementWalk(NameWalk):
    """Walks statements; what is certainly bound is the state it returns."""

    def block(self, statements: list[ast.stmt], state: State) -> State:
        for statement in statements:
            if state.ended:
                break
            state = self._statement(statement, state)
        return state

    def _statement(self, node: ast.stmt, state: State) -> State:
        method = _METHODS.get(type(node).__name__)
        if method is not None:
            return method(self, node, state)
        self._expressions(node, state)  # Expr, Assert, Global, Pass: nothing is bound
        return state

    def _raise(self, node: ast.Raise, state: State) -> State:
        self._expressions(node, state)
        return State(state.bound, True)

    def _break(self, node: ast.stmt, state: State) -> State:
        return State(state.bound, True)

    def _assign(self, node: ast.Assign, state: State) -> State:
        if isinstance(node.value, ast.Lambda) and all(isinstance(target, ast.Name) for target in node.targets):
            self._function_outside(node.value.args, state)
            self._defer([target.id for target in node.targets if isinstance(target, ast.Name)], body_names(node.value))
        else:
            self._expression(node.value, state)
        for target in node.targets:
            self._target(target, state)
        return state

    def _aug_assign(self, node: ast.AugAssign, state: State) -> State:
        if isinstance(node.target, ast.Name):
            self._load(node.target.id, state)
        self._expression(node.value, state)
        self._target(node.target, state)
        return state

    def _ann_assign(self, node: ast.AnnAssign, state: State) -> State:
        if node.value is not None:
            self._expression(node.value, state)
            self._target(node.target, state)
        elif not isinstance(node.target, ast.Name):
            self._expression(node.target, state)
        self._expression(node.annotation, state)
        return state

    def _type_alias(self, node: ast.stmt, state: State) -> State:  # Python 3.12: `type X = ...` is worked out when asked for
        name = node.name.id  # type: ignore[attr-defined]  # ast.TypeAlias does not exist in 3.11's stubs
        self._defer([name], body_names(node))
        self._bind(name, state)
        return state

    def _delete(self, node: ast.Delete, state: State) -> State:
        for target in node.targets:
            for name in _stored_names(target, ast.Del):
                self._load(name, state)
                state.bound.discard(name)
            self._expressions(target, state)
        return state

    def _import(self, node: ast.Import | ast.ImportFrom, state: State) -> State:
        for alias in node.names:
            if alias.name == "*":
                self._star = True
            else:
                self._bind(alias.asname or alias.name.split(".")[0], state)
        return state

    def _function_def(self, node: ast.FunctionDef | ast.AsyncFunctionDef, state: State) -> State:
        for decorator in node.decorator_list:
            self._expression(decorator, state)
        self._function_outside(node.args, state, *([node.returns] if node.returns else []))
        self._defer([node.name], body_names(node))
        self._bind(node.name, state)
        if node.decorator_list:  # a decorator may call it at once
            self._activate(node.name, state)
        return state

    def _class_def(self, node: ast.ClassDef, state: State) -> State:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self._expressions(part, state) if isinstance(part, ast.keyword) else self._expression(part, state)
        inside = ClassWalk(self, state)
        inside.block(node.body, State())
        self._defer([node.name], body_names(node))
        self._bind(node.name, state)
        if node.decorator_list or node.keywords or node.bases:  # a decorator, metaclass or __init_subclass__ may call its methods
            self._activate(node.name, state)
        return state

    def _if(self, node: ast.If, state: State) -> State:
        self._expression(node.test, state)
        return join([self.block(node.body, state.copy()), self.block(node.orelse, state.copy())])

    def _for(self, node: ast.For | ast.AsyncFor, state: State) -> State:
        self._expression(node.iter, state)
        inside = state.copy()
        self._target(node.target, inside)
        self._loop_body(node.body, inside)
        state.bound -= _unbound_in(node.body)
        return join([state, self.block(node.orelse, state.copy())])

    def _while(self, node: ast.While, state: State) -> State:
        self._expression(node.test, state)
        self._loop_body(node.body, state)
        state.bound -= _unbound_in(node.body)
        return join([state, self.block(node.orelse, state.copy())])

    def _loop_body(self, body: list[ast.stmt], state: State) -> None:
        """Twice for an outermost loop: in its second round a body can call what it defined in the first."""
        rounds, outer = (1 if self._in_loop else 2), self._in_loop
        self._in_loop = True
        for _ in range(rounds):
            self.block(body, state.copy())
            state.bound -= _unbound_in(body)
        self._in_loop = outer

    def _with(self, node: ast.With | ast.AsyncWith, state: State) -> State:
        for item in node.items:
            self._expression(item.context_expr, state)
            if item.optional_vars is not None:
                self._target(item.optional_vars, state)
        before = State(state.bound - _unbound_in(node.body))
        after = self.block(node.body, state)
        if any(_may_swallow(item.context_expr) for item in node.items):
            return join([before, after])
        return after

    def _try(self, node: ast.Try, state: State) -> State:
        before = State(state.bound - _unbound_in(node.body))  # the body may fail after any of its statements
        ends = [self.block(node.orelse, self.block(node.body, state))]
        for handler in node.handlers:
            inside = before.copy()
            if handler.type is not None:
                self._expression(handler.type, inside)
            if handler.name is not None:
                self._bind(handler.name, inside)
            inside = self.block(handler.body, inside)
            if handler.name is not None:
                inside.bound.discard(handler.name)
            ends.append(inside)
        joined = join(ends)
        if not node.finalbody:
            return joined
        before.bound -= _unbound_in([*node.handlers, *node.orelse])
        after = self.block(node.finalbody, before)  # runs also when the body failed half-way
        return State((joined.bound - _unbound_in(node.finalbody)) | after.bound, joined.ended or after.ended)

    def _match(self, node: ast.Match, state: State) -> State:
        self._expression(node.subject, state)
        ends: list[State] = []
        for case in node.cases:
            inside = state.copy()
            self._expressions(case.pattern, inside)
            for name in _pattern_names(case.pattern):
                self._bind(name, inside)
            if case.guard is not None:
                self._expression(case.guard, inside)
            ends.append(self.block(case.body, inside))
        last = node.cases[-1]
        catches_all = last.guard is None and isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
        return join(ends if catches_all else [*ends, state])


class ClassWalk(StatementWalk):
    """The body of a class: runs at once, binds into the class, and loads from outside what it has not bound itself."""

    def __init__(self, outer: StatementWalk, outer_state: State) -> None:
        super().__init__()
        self._outer, self._outer_state = outer, outer_state

    def _note(self, name: str, state: State, certain: bool) -> None:
        if name not in state.bound:
            self._outer._load(name, self._outer_state, certain=certain and name not in self.maybe_bound)

    def _need(self, names: Iterable[str], state: State) -> None:
        self._outer._need(names, self._outer_state)  # bodies do not see the class's names


def _stored_names(node: ast.AST, context: type[ast.expr_context]) -> Iterator[str]:
    return (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, context))


def _unbound_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that one of these may delete; `except E as name` does at its end."""
    found: set[str] = set()
    for node in nodes:
        found.update(_stored_names(node, ast.Del))
        found.update(inner.name for inner in ast.walk(node) if isinstance(inner, ast.ExceptHandler) and inner.name is not None)
    return found


def _pattern_names(pattern: ast.AST) -> Iterator[str]:
    for node in ast.walk(pattern):
        name = getattr(node, "rest", None) if isinstance(node, ast.MatchMapping) else getattr(node, "name", None)
        if isinstance(node, (ast.MatchAs, ast.MatchStar, ast.MatchMapping)) and name is not None:
            yield name


def _may_swallow(context: ast.expr) -> bool:
    """Whether a `with` may go on after an exception in its body (as far as a name tells)."""
    called = context.func if isinstance(context, ast.Call) else context
    return getattr(called, "attr", getattr(called, "id", "")) in {"suppress", "raises", "assertRaises"}


_METHODS: dict[str, Callable[[StatementWalk, Any, State], State]] = {
    "Raise": StatementWalk._raise,
    "Break": StatementWalk._break,
    "Continue": StatementWalk._break,
    "Assign": StatementWalk._assign,
    "AugAssign": StatementWalk._aug_assign,
    "AnnAssign": StatementWalk._ann_assign,
    "TypeAlias": StatementWalk._type_alias,
    "Delete": StatementWalk._delete,
    "Import": StatementWalk._import,
    "ImportFrom": StatementWalk._import,
    "FunctionDef": StatementWalk._function_def,
    "AsyncFunctionDef": StatementWalk._function_def,
    "ClassDef": StatementWalk._class_def,
    "If": StatementWalk._if,
    "For": StatementWalk._for,
    "AsyncFor": StatementWalk._for,
    "While": StatementWalk._while,
    "With": StatementWalk._with,
    "AsyncWith": StatementWalk._with,
    "Try": StatementWalk._try,
    "TryStar": StatementWalk._try,
    "Match": StatementWalk._match,
}  # by name: some of these node classes are younger than the oldest Python this runs on
