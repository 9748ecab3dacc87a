"""The names a cell needs, against tables and against what really happens when random cells run."""

from __future__ import annotations

import builtins
import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulayer_nb.shipping.free_names import attributes_in, bound_names, free_names, needed_names


def free(source: str) -> set[str]:
    return {name for name in free_names(source) if not hasattr(builtins, name)}


@pytest.mark.parametrize(
    ("source", "needed"),
    [
        ("x = 1\ny = x + z", {"z"}),
        ("x += 1", {"x"}),
        ("x: t = v\nx", {"t", "v"}),
        ("x: t\nx", {"t", "x"}),
        ("a[i] = b.c = v", {"a", "i", "b", "v"}),
        ("(p, *q), r = v\np, q, r", {"v"}),
        ("del x", {"x"}),
        ("x = 1\ndel x\nx", {"x"}),
        ("import torch.nn as nn, os.path\nnn, os, torch", {"torch"}),
        ("from m import a as b\nb, a", {"a"}),
        ("from m import *\nz", {"z"}),
        ("global g\ng = 1\ng", set()),
        ("f'{a!r:>{width}} {b}'", {"a", "width", "b"}),
        ("[x + k for x in xs if x > t]", {"k", "xs", "t"}),
        ("{k: v for k, vs in items for v in vs}", {"items"}),
        ("(y := f(x)) and y", {"f", "x"}),
        ("a and (y := 1)\ny", {"a", "y"}),
        ("[(w := x) for x in xs]\nw", {"xs", "w"}),
        ("lambda x, y=d: x + k", {"d", "k"}),
        ("def f(a: ann = d, *r, b=e, **k) -> ret:\n    return a + free + r + k", {"ann", "d", "e", "ret", "free"}),
        ("def f():\n    global c\n    c = 1\n    return g", {"g"}),
        ("def f():\n    def g():\n        return x + y\n    x = 1\n    return g", {"y"}),
        ("def f():\n    class A:\n        b = k\n    return A", {"k"}),
        ("def f(n): return f(n - 1)", set()),
        ("@deco\ndef f(): return k", {"deco", "k"}),
        ("async def f():\n    async with a as b: return await b\nawait f()", {"a"}),
        ("def f(): return g()\ndef g(): return 1\nf()", set()),
        ("def f(): return g()\nf()\ndef g(): return 1", {"g"}),
        ("def f(): return h\nif c:\n    h = 1\n    f()\nf()", {"c", "h"}),
        (
            "class A(Base, metaclass=M):\n    x = 1\n    y = x + z\n    def m(self): return x + super().m()",
            {"Base", "M", "z", "x"},
        ),
        ("class A:\n    def m(self): return B()\nclass B: pass\nA()", set()),
        ("class A:\n    def m(self): return B()\nA()\nclass B: pass", {"B"}),
        ("class A:\n    def __m(self): return __k", {"_A__k"}),
        ("for i in r:\n    loss = i\nprint(loss, i)", {"r", "loss", "i"}),
        ("b = 1\nfor i in r:\n    b = 1\n    del b\nb", {"r", "b"}),
        ("x = 1\ntry:\n    del x\n    f()\nexcept E:\n    x", {"f", "E", "x"}),
        ("for i in r: x = 1\nelse: x = 2\nx", {"r", "x"}),
        ("while c: x = 1\nx", {"c", "x"}),
        ("if c: x = 1\nelse: x = 2\nx", {"c"}),
        ("if c: x = 1\nx", {"c", "x"}),
        ("if c: x = 1\nelse: raise e\nx", {"c", "e"}),
        ("try:\n    import q\nexcept ImportError:\n    q = None\nq", set()),
        ("try:\n    x = f()\nexcept E as e:\n    print(e)\nx, e", {"f", "E", "x", "e"}),
        ("try:\n    x = f()\nfinally:\n    y = x\nx, y", {"f", "x"}),
        ("with open(p) as f, g as (h, i):\n    d = f.read()\nd, h, i", {"p", "g"}),
        ("with suppress(E):\n    d = 1\nd", {"suppress", "E", "d"}),
        (
            "match p:\n    case [a, *b] if g: x = 1\n    case {'k': c, **d}: x = C.v\n    case _: x = 3\nx, a",
            {"p", "g", "C", "a"},
        ),
        ("match p:\n    case K(u=u): u", {"p", "K"}),
        ("get_ipython().run_line_magic('timeit', '-n 10 -r 3 f(x)')", {"get_ipython", "f", "x"}),
        ("get_ipython().run_line_magic('time', 'y = f(x)')\ny", {"get_ipython", "f", "x"}),
        ("get_ipython().run_cell_magic('time', '', 'y = f(x)\\n')\ny", {"get_ipython", "f", "x"}),
        ("get_ipython().run_cell_magic('bash', '-s {d}', 'echo hi')", {"get_ipython", "d"}),
        ("get_ipython().system('ls {folder.name} $other $$HOME')", {"get_ipython", "folder", "other"}),
        ("files = get_ipython().getoutput('ls {d}')\nfiles", {"get_ipython", "d"}),
        ("x = (", set()),
        ("", set()),
    ],
)
def test_a_cell_needs_exactly_these_names(source: str, needed: set[str]) -> None:
    assert free(source) == needed


def test_a_long_chain_of_functions_is_looked_at_in_little_time() -> None:
    source = "\n".join(f"def f{i}(): return f{i - 1}() + f{i - 2}() + k" for i in range(2, 400))
    assert free(source + "\nf399()") == {"f0", "f1", "k"}


def test_what_something_before_may_have_bound_is_only_possible() -> None:
    needed = needed_names("for i in r:\n    loss = i\nloss, other")
    assert needed.possible == {"loss"}
    assert needed.certain == {"r", "other"}


def test_bound_names_are_those_a_cell_may_leave_behind() -> None:
    source = "import a.b, c as d\nfor i in r:\n    [j for j in x]\n    k = (l := 1)\n"
    source += "def f(): m = 1\nclass C: n = 1\nwith o as p: q[0] = 1"
    assert bound_names(source) == {"a", "d", "i", "k", "l", "f", "C", "p"}


def test_attributes_are_those_a_cell_reaches() -> None:
    assert attributes_in("xml.etree.parse(x).y") == {"etree", "parse", "y"}


# -- random cells, run for real

DATA, CALLABLES = ["a", "b", "c", "d"], ["f", "g", "C"]


class Anything:
    """Stands for a value from outside: can be called, entered, iterated over, added to."""

    def __call__(self, *args: object, **kwargs: object) -> Anything:
        return self

    __add__ = __radd__ = __getitem__ = __call__

    def __getattr__(self, name: str) -> Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __setitem__(self, key: object, value: object) -> None: ...

    def __iter__(self) -> Any:
        return iter([self, self])

    def __enter__(self) -> Anything:
        return self

    def __exit__(self, *error: object) -> None: ...


class Outside(dict[str, Any]):
    """Builtins that have every name, and note which were asked for: those the cell had not bound."""

    def __init__(self, truths: list[bool]) -> None:
        super().__init__(vars(builtins))
        self.asked: set[str] = set()
        self.truths = truths

    def __getitem__(self, name: str) -> Any:
        if name == "flip":
            return lambda: self.truths.pop() if self.truths else False
        if name not in DATA + CALLABLES:
            return super().__getitem__(name)
        self.asked.add(name)
        return Anything()


names = st.sampled_from(DATA)
calls = st.sampled_from(CALLABLES).map(lambda f: f"{f}()")
expressions = st.recursive(
    names | calls | st.just("1"),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: f"({p[0]}, {p[1]})[0]"),
        st.tuples(names, inner).map(lambda p: f"({p[0]} := {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"(flip() and {p[0]} or {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} if flip() else {p[1]})"),
        st.tuples(inner, names, inner).map(lambda p: f"(lambda {p[1]}={p[0]}: {p[2].replace(':=', '==')})()"),
        st.tuples(inner, names).map(lambda p: f"[{p[0].replace(':=', '==')} for {p[1]} in [1, 2]]"),
    ),
    max_leaves=4,
)


def indent(body: str) -> str:
    return "\n".join("    " + line for line in body.splitlines())


simple = st.one_of(
    st.tuples(names, expressions).map(lambda p: f"{p[0]} = {p[1]}"),
    st.tuples(names, expressions).map(lambda p: f"{p[0]} += {p[1]}"),
    expressions,
    names.map(lambda n: f"del {n}"),
    names.map(lambda n: f"import os as {n}"),
    st.tuples(st.sampled_from(CALLABLES), names).map(lambda p: f"{p[0]} = lambda: {p[1]}"),
)


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    blocks = st.lists(inner, min_size=1, max_size=3).map("\n".join)
    return st.one_of(
        st.tuples(blocks, blocks).map(lambda p: f"if flip():\n{indent(p[0])}\nelse:\n{indent(p[1])}"),
        blocks.map(lambda b: f"if flip():\n{indent(b)}"),
        st.tuples(names, expressions, blocks).map(lambda p: f"for {p[0]} in [1, 2, {p[1]}]:\n{indent(p[2])}"),
        blocks.map(lambda b: f"while flip():\n{indent(b)}\n    if flip(): break"),
        st.tuples(blocks, blocks).map(
            lambda p: f"try:\n{indent(p[0])}\n    if flip(): raise ValueError\nexcept ValueError:\n{indent(p[1])}"
        ),
        st.tuples(blocks, blocks).map(lambda p: f"try:\n{indent(p[0])}\nfinally:\n{indent(p[1])}"),
        st.tuples(names, blocks, blocks).map(
            lambda p: f"match [flip()]:\n    case [True]:\n{indent(indent(p[1]))}\n    case {p[0]}:\n{indent(indent(p[2]))}"
        ),
        st.tuples(st.sampled_from("fg"), expressions, expressions).map(lambda p: f"def {p[0]}(x={p[1]}):\n    return {p[2]}"),
        st.tuples(st.sampled_from("fg"), names, expressions).map(
            lambda p: f"def {p[0]}():\n    global {p[1]}\n    {p[1]} = {p[2]}"
        ),
        st.tuples(names, expressions, expressions).map(
            lambda p: f"class C:\n    {p[0]} = {p[1]}\n    def __init__(self): {p[2]}"
        ),
    )


cells = st.lists(st.recursive(simple, compound, max_leaves=6), min_size=1, max_size=7).map("\n".join)


def asked_when_run(source: str, truths: list[bool]) -> set[str]:
    outside = Outside(truths)
    with contextlib.suppress(
        NameError, TypeError, ValueError, AttributeError, RecursionError
    ):  # asked before it failed counts too
        exec(compile(source, "<cell>", "exec", dont_inherit=True), {"__builtins__": outside, "__name__": "__main__"})
    return outside.asked


@settings(max_examples=100, deadline=None)
@given(cells, st.lists(st.booleans(), max_size=12))
def test_whatever_a_cell_asks_for_was_foreseen(source: str, truths: list[bool]) -> None:
    try:
        compile(source, "<cell>", "exec", dont_inherit=True)
    except SyntaxError:
        return
    assert asked_when_run(source, truths) <= free(source), source


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.one_of(st.tuples(names, names).map(" = ".join), st.tuples(names, names).map(" += ".join), names),
        min_size=1,
        max_size=8,
    )
)
def test_a_straight_cell_asks_for_all_that_was_foreseen(lines: list[str]) -> None:
    source = "\n".join(lines)
    needed = needed_names(source)
    assert asked_when_run(source, []) == needed.certain
    assert not needed.possible
