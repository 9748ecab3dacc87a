"""Runs one cell on a rank, as the notebook would.

Runs in each rank's process. Owns the predefined names, the last expression's value and line numbers that match the notebook.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tokenize
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

PREDEFINED = ("rank", "local_rank", "node_rank", "world_size", "device", "dist", "torch")


@dataclass(frozen=True)
class CellOutcome:
    """`error` is the exception the cell raised, `traceback` its text as IPython draws it (ANSI colours), or empty."""

    has_value: bool = False
    value: Any = None
    error: BaseException | None = None
    traceback: str = ""


class _CaptureValue:
    """Stands in for IPython's display hook: keeps the last expression's value instead of sending it."""

    def __init__(self) -> None:
        self.has_value, self.value = False, None

    def __call__(self, value: Any = None) -> None:
        self.has_value, self.value = value is not None, value


def run_cell(
    shell: Any,
    source: str,
    cell: int,
    undisturbed: Callable[[], AbstractContextManager[None]],
    announce: Callable[[BaseException], bool] = lambda error: True,
) -> CellOutcome:
    """Runs `source` in the shell's namespace under the notebook's cell number.

    Args:
        shell: the engine's IPython shell.
        source: the cell's text; line 1 is the notebook's line 1.
        cell: the notebook's execution count, shown in tracebacks as `Cell In[cell]`.
        undisturbed: keeps interrupts away while an error is drawn.
        announce: told of an error before it is drawn, which takes a while; False leaves it undrawn.
    """
    shell.execution_count = cell
    capture, hook = _CaptureValue(), shell.display_trap.hook
    shell.display_trap.hook = capture
    shell._last_traceback = None
    try:
        with _kept_tracebacks(shell, undisturbed, announce):
            result = shell.run_cell(source, store_history=False)
        _print_pages(shell)
    finally:
        shell.display_trap.hook = hook
    error = result.error_before_exec or result.error_in_exec
    if error is not None:
        text = "\n".join(shell._last_traceback or [])
        return CellOutcome(error=error, traceback=text)
    if capture.has_value and not _ends_with_semicolon(source):
        return CellOutcome(has_value=True, value=capture.value)
    return CellOutcome()


def _print_pages(shell: Any) -> None:
    """What `name?` would show in a pager of its own is output here: a rank has no pager."""
    for payload in shell.payload_manager.read_payload():
        if payload.get("source") == "page":
            sys.stdout.write(payload["data"].get("text/plain", "") + "\n")
    shell.payload_manager.clear_payload()


@contextlib.contextmanager
def _kept_tracebacks(
    shell: Any, undisturbed: Callable[[], AbstractContextManager[None]], announce: Callable[[BaseException], bool]
) -> Iterator[None]:
    """IPython would publish an error to every client at once, and print an interrupt; here both belong to the run's report."""
    show, publish = shell.showtraceback, shell._showtraceback

    def keep(error_type: type[BaseException], error: BaseException, lines: list[str]) -> None:
        shell._last_traceback = lines

    def show_errors_only(*args: Any, **kwargs: Any) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, KeyboardInterrupt):
            with undisturbed():
                # only what ends the cell; `%run` draws the errors of its script by the same way
                if error is None or not kwargs.get("running_compiled_code") or announce(error):
                    show(*args, **kwargs)

    shell.showtraceback, shell._showtraceback = show_errors_only, keep
    try:
        yield
    finally:
        shell.showtraceback, shell._showtraceback = show, publish


def _ends_with_semicolon(source: str) -> bool:
    last = ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.DEDENT):
                last = token.string
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return source.rstrip().endswith(";")  # IPython syntax such as `!ls` is no Python
    return last == ";"
