"""Which names a cell needs from outside: a pure function of its Python source.

Runs in the kernel. Owns the walk over the cell's statements. Must not know any namespace: whether a name exists is the caller's business.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gpulayer_nb.shipping.code_globals import global_names, nested_codes
from gpulayer_nb.shipping.magic_names import code_of_magic, expanded_names

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


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
    walk = _Walk()
    state = walk.block(tree.body, _State())
    walk.end(state)
    return NeededNames(frozenset(walk.certain), frozenset(walk.possible - walk.certain))


def bound_names(python_source: str) -> frozenset[str]:
    """Names that running the source may bind at top level, star imports excepted."""
    try:
        tree = ast.parse(python_source)
    except SyntaxError:
        return frozenset()
    walk = _Walk()
    walk.block(tree.body, _State())
    return frozenset(walk.maybe_bound)


def attributes_in(python_source: str) -> frozenset[str]:
    """Every name that the source uses as an attribute."""
    try:
        tree = ast.parse(python_source)
    except SyntaxError:
        return frozenset()
    return frozenset(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))


@dataclass
class _State:
    """What is certainly bound at one point of the walk. `ended`: control does not get past this point."""

    bound: set[str] = field(default_factory=set)
    ended: bool = False

    def copy(self) -> _State:
        return _State(set(self.bound), self.ended)


def _join(states: Iterable[_State]) -> _State:
    """The state where several ways meet: bound is what every way that gets here has bound."""
    alive = [state for state in states if not state.ended]
    if not alive:
        return _State(set(), True)
    return _State(set.intersection(*(state.bound for state in alive)))


class _Walk:
    """One walk over a cell in the order of execution.

    The body of a function runs when somebody calls it, and nobody can call it without loading its name (or that of the class
    it is in). So what a body needs waits in `_deferred` under that name until the name is loaded, or until the cell ends.
    """

    def __init__(self) -> None:
        self.certain: set[str] = set()
        self.possible: set[str] = set()
        self.maybe_bound: set[str] = set()
        self._star = False  # a star import was seen: any name may be bound
        self._deferred: dict[str, set[str]] = {}
        self._running: set[str] = set()  # names whose bodies are being looked at: recursion ends there
        self._in_loop = False

    def end(self, state: _State) -> None:
        """Later cells and the fit may call whatever the cell defined."""
        for name in list(self._deferred):
            self._activate(name, state)

    # -- statements

    def block(self, statements: list[ast.stmt], state: _State) -> _State:
        for statement in statements:
            if state.ended:
                break
            state = self._statement(statement, state)
        return state

    def _statement(self, node: ast.stmt, state: _State) -> _State:
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is not None:
            result: _State = method(node, state)
            return result
        self._expressions(node, state)  # Expr, Assert, Global, Pass: nothing is bound
        return state

    def _Return(self, node: ast.Return, state: _State) -> _State:  # a syntax error at top level; the cell's own run says so
        return state

    def _Raise(self, node: ast.Raise, state: _State) -> _State:
        self._expressions(node, state)
        return _State(state.bound, True)

    def _Break(self, node: ast.stmt, state: _State) -> _State:
        return _State(state.bound, True)

    _Continue = _Break

    def _Assign(self, node: ast.Assign, state: _State) -> _State:
        if isinstance(node.value, ast.Lambda) and all(isinstance(target, ast.Name) for target in node.targets):
            self._function_outside(node.value.args, state)
            self._defer([target.id for target in node.targets if isinstance(target, ast.Name)], _body_names(node.value))
        else:
            self._expression(node.value, state)
        for target in node.targets:
            self._target(target, state)
        return state

    def _AugAssign(self, node: ast.AugAssign, state: _State) -> _State:
        if isinstance(node.target, ast.Name):
            self._load(node.target.id, state)
        self._expression(node.value, state)
        self._target(node.target, state)
        return state

    def _AnnAssign(self, node: ast.AnnAssign, state: _State) -> _State:
        if node.value is not None:
            self._expression(node.value, state)
            self._target(node.target, state)
        elif not isinstance(node.target, ast.Name):
            self._expression(node.target, state)
        self._expression(node.annotation, state)
        return state

    def _TypeAlias(self, node: ast.stmt, state: _State) -> _State:  # Python 3.12: `type X = ...` is worked out when asked for
        name = node.name.id  # type: ignore[attr-defined]  # ast.TypeAlias does not exist in 3.11's stubs
        self._defer([name], _body_names(node))
        self._bind(name, state)
        return state

    def _Delete(self, node: ast.Delete, state: _State) -> _State:
        for target in node.targets:
            for name in _stored_names(target, ast.Del):
                self._load(name, state)
                state.bound.discard(name)
            self._expressions(target, state)
        return state

    def _Import(self, node: ast.Import | ast.ImportFrom, state: _State) -> _State:
        for alias in node.names:
            if alias.name == "*":
                self._star = True
            else:
                self._bind(alias.asname or alias.name.split(".")[0], state)
        return state

    _ImportFrom = _Import

    def _FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, state: _State) -> _State:
        for decorator in node.decorator_list:
            self._expression(decorator, state)
        self._function_outside(node.args, state, *([node.returns] if node.returns else []))
        self._defer([node.name], _body_names(node))
        self._bind(node.name, state)
        if node.decorator_list:  # a decorator may call it at once
            self._activate(node.name, state)
        return state

    _AsyncFunctionDef = _FunctionDef

    def _ClassDef(self, node: ast.ClassDef, state: _State) -> _State:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self._expressions(part, state) if isinstance(part, ast.keyword) else self._expression(part, state)
        inside = _ClassWalk(self, state)
        inside.block(node.body, _State())
        self._defer([node.name], _body_names(node))
        self._bind(node.name, state)
        if node.decorator_list or node.keywords or node.bases:  # a decorator, metaclass or __init_subclass__ may call its methods
            self._activate(node.name, state)
        return state

    def _If(self, node: ast.If, state: _State) -> _State:
        self._expression(node.test, state)
        return _join([self.block(node.body, state.copy()), self.block(node.orelse, state.copy())])

    def _For(self, node: ast.For | ast.AsyncFor, state: _State) -> _State:
        self._expression(node.iter, state)
        inside = state.copy()
        self._target(node.target, inside)
        self._loop_body(node.body, inside)
        return _join([state, self.block(node.orelse, state.copy())])

    _AsyncFor = _For

    def _While(self, node: ast.While, state: _State) -> _State:
        self._expression(node.test, state)
        self._loop_body(node.body, state)
        return _join([state, self.block(node.orelse, state.copy())])

    def _loop_body(self, body: list[ast.stmt], state: _State) -> None:
        """Twice for an outermost loop: in its second round a body can call what it defined in the first."""
        rounds, outer = (1 if self._in_loop else 2), self._in_loop
        self._in_loop = True
        for _ in range(rounds):
            self.block(body, state.copy())
        self._in_loop = outer

    def _With(self, node: ast.With | ast.AsyncWith, state: _State) -> _State:
        for item in node.items:
            self._expression(item.context_expr, state)
            if item.optional_vars is not None:
                self._target(item.optional_vars, state)
        before = state.copy()
        after = self.block(node.body, state)
        if any(_may_swallow(item.context_expr) for item in node.items):
            return _join([before, after])
        return after

    _AsyncWith = _With

    def _Try(self, node: ast.Try, state: _State) -> _State:
        before = state.copy()
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
        joined = _join(ends)
        if not node.finalbody:
            return joined
        after = self.block(node.finalbody, before)  # runs also when the body failed half-way
        return _State(joined.bound | after.bound, joined.ended or after.ended)

    _TryStar = _Try

    def _Match(self, node: ast.Match, state: _State) -> _State:
        self._expression(node.subject, state)
        ends: list[_State] = []
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
        return _join(ends if catches_all else [*ends, state])

    # -- expressions

    def _expressions(self, node: ast.AST, state: _State) -> None:
        for child in ast.iter_child_nodes(node):
            self._expression(child, state)

    def _expression(self, node: ast.AST, state: _State) -> None:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self._load(node.id, state)
        elif isinstance(node, ast.NamedExpr):
            self._expression(node.value, state)
            self._target(node.target, state)
        elif isinstance(node, ast.Lambda):
            self._function_outside(node.args, state)
            self._need(_body_names(node), state)
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

    def _maybe(self, node: ast.expr, state: _State) -> None:
        """An expression that may not be evaluated: its walrus targets are not certainly bound afterwards."""
        self._expression(node, state.copy())

    def _comprehension(self, node: ast.AST, state: _State) -> None:
        """Its own scope, but for the first iterable and walrus targets."""
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]  # each of _COMPREHENSIONS has it
        self._expression(generators[0].iter, state)
        self._need(_body_names(ast.Expr(node)), state)  # type: ignore[arg-type]  # a comprehension is an expression
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                self.maybe_bound.add(inner.target.id)
            elif isinstance(inner, ast.Call):
                self._magic(inner, state.copy())

    def _function_outside(self, arguments: ast.arguments, state: _State, *more: ast.expr) -> None:
        """Defaults and annotations are evaluated where the function is written."""
        every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        annotations = [a.annotation for a in every if a is not None and a.annotation is not None]
        for value in (*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None), *annotations, *more):
            self._expression(value, state)

    def _magic(self, node: ast.Call, state: _State) -> None:
        """A call that IPython's syntax was turned into carries code, or `{name}` and `$name`, in its strings."""
        code, text = code_of_magic(node)
        if code:
            with contextlib.suppress(SyntaxError):
                state.bound.update(self.block(ast.parse(code).body, state.copy()).bound)
        for name in expanded_names(text):
            self._load(name, state, certain=False)

    # -- names

    def _target(self, node: ast.expr, state: _State) -> None:
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

    def _bind(self, name: str, state: _State) -> None:
        state.bound.add(name)
        self.maybe_bound.add(name)

    def _load(self, name: str, state: _State, *, certain: bool = True) -> None:
        if name not in state.bound:
            sure = certain and not self._star and name not in self.maybe_bound
            (self.certain if sure else self.possible).add(name)
        self._activate(name, state)

    def _defer(self, names: list[str], needs: Iterable[str]) -> None:
        for name in names:
            self._deferred.setdefault(name, set()).update(needs)

    def _activate(self, name: str, state: _State) -> None:
        """The function or class `name` may run here. Not for good: elsewhere fewer names may be bound."""
        if name not in self._running:
            self._running.add(name)
            self._need(self._deferred.get(name, ()), state)
            self._running.discard(name)

    def _need(self, names: Iterable[str], state: _State) -> None:
        for name in sorted(names):
            self._load(name, state)


class _ClassWalk(_Walk):
    """The body of a class: runs at once, binds into the class, and loads from outside what it has not bound itself."""

    def __init__(self, outer: _Walk, outer_state: _State) -> None:
        super().__init__()
        self._outer, self._outer_state = outer, outer_state

    def _load(self, name: str, state: _State, *, certain: bool = True) -> None:
        if name not in state.bound:
            self._outer._load(name, self._outer_state, certain=certain and name not in self.maybe_bound)

    def _defer(self, names: list[str], needs: Iterable[str]) -> None:
        """Methods wait under the name of the class, which the outer walk defers."""

    def _need(self, names: Iterable[str], state: _State) -> None:
        self._outer._need(names, self._outer_state)  # bodies of lambdas and comprehensions do not see the class's names


def _body_names(node: ast.AST) -> set[str]:
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


def _stored_names(node: ast.AST, context: type[ast.expr_context]) -> Iterator[str]:
    return (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, context))


def _pattern_names(pattern: ast.AST) -> Iterator[str]:
    for node in ast.walk(pattern):
        name = getattr(node, "rest", None) if isinstance(node, ast.MatchMapping) else getattr(node, "name", None)
        if isinstance(node, (ast.MatchAs, ast.MatchStar, ast.MatchMapping)) and name is not None:
            yield name


def _may_swallow(context: ast.expr) -> bool:
    """Whether a `with` may go on after an exception in its body (as far as a name tells)."""
    called = context.func if isinstance(context, ast.Call) else context
    return getattr(called, "attr", getattr(called, "id", "")) in {"suppress", "raises", "assertRaises"}
