"""What a check says: right, or what is wrong, at which case and why.

Runs in the kernel. Owns the comparison of answers with the right ones and with known mistakes. Must not know any exercise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

NOTHING_YET = "Replace the `...` by your answer and run the cell again."


@dataclass(frozen=True)
class Verdict:
    """`text` is one readable paragraph; a wrong answer's names the case, what was expected and what came."""

    right: bool
    text: str

    def __str__(self) -> str:
        return f"{'Right.' if self.right else 'Not yet.'} {self.text}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        mark, color = ("✔ Right.", "#009E73") if self.right else ("✘ Not yet.", "#D55E00")
        return f'<div style="border-left: 4px solid {color}; padding: 2px 10px"><b>{mark}</b> {escape(self.text)}</div>'


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people really give: a function of the case, and what it shows about their idea."""

    answer: Callable[..., Any]
    why: str


@dataclass(frozen=True)
class Pattern:
    """The same for an answer on every rank: one value for all, or a list with one for each."""

    values: Any
    why: str


def first_wrong(
    student: Callable[..., Any], cases: Sequence[tuple[Any, ...]], right: Callable[..., Any], mistakes: Sequence[Mistake],
    say: Callable[..., str], praise: str, *, digits: int | None = None,
) -> Verdict:  # fmt: skip
    """Compares a student's function with the right one, case by case.

    Args:
        say: a case in words.
        praise: what to say when all is right.
        digits: compare numbers rounded to so many decimals; None means: exactly.
    """

    def shown(value: Any) -> Any:
        return round(value, digits) if digits is not None and isinstance(value, (int, float)) else value

    answers = []
    for case in cases:
        try:
            answers.append(shown(student(*case)))
        except Exception as error:  # noqa: BLE001  # a student's function may raise anything; that is an answer too
            return Verdict(False, f"{say(*case)}: your function raised {type(error).__name__}: {error}.")
    if all(answer is ... for answer in answers):
        return Verdict(False, NOTHING_YET)
    for case, answer in zip(cases, answers, strict=True):
        expected = shown(right(*case))
        if not same(answer, expected):
            told = f"{say(*case)}: expected {expected!r}, got {answer!r}."
            for mistake in mistakes:
                if all(same(shown(mistake.answer(*c)), a) for c, a in zip(cases, answers, strict=True)):
                    return Verdict(False, f"{told} {mistake.why}")
            if answer is None:
                return Verdict(False, f"{told} Does your function end with `return`?")
            return Verdict(False, told)
    return Verdict(True, praise)


def on_every_rank(
    values: Sequence[Any], expected: Any, patterns: Sequence[Pattern], praise: str, *, tolerance: float = 1e-6
) -> Verdict:
    """Compares one value per rank, in rank order, with what every rank should have.

    Args:
        expected: one value for all ranks, or a list with one for each.
    """
    if any(value is ... or (isinstance(value, tuple) and ... in value) for value in values):
        return Verdict(False, NOTHING_YET)
    wanted = _for_each(expected, values)
    if len(wanted) != len(values):
        return Verdict(
            False, f"Expected the answers of {len(wanted)} ranks, got {len(values)}. Next: bring up 2 × 2 ranks again."
        )
    if all(same(value, want, tolerance) for value, want in zip(values, wanted, strict=True)):
        return Verdict(True, praise)
    for pattern in patterns:
        known = _for_each(pattern.values, values)
        if len(known) == len(values) and all(same(v, k, tolerance) for v, k in zip(values, known, strict=True)):
            each = "in rank order" if isinstance(expected, list) else "on every rank"
            return Verdict(False, f"Expected {expected!r} {each}, got {list(values)!r}. {pattern.why}")
    rank = next(r for r, value in enumerate(values) if not same(value, wanted[r], tolerance))
    return Verdict(False, f"Rank {rank}: expected {wanted[rank]!r}, got {values[rank]!r}.")


def same(a: Any, b: Any, tolerance: float = 0.0) -> bool:
    """Equal; numbers within the tolerance, sequences entry by entry, and True is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) <= tolerance
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y, tolerance) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def _for_each(expected: Any, values: Sequence[Any]) -> list[Any]:
    return expected if isinstance(expected, list) else [expected] * len(values)
