"""A magic's cell: its text with the notebook's line numbers, its text as plain Python, its number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cell:
    """`source` starts with an empty line in the magic's place, so that line numbers in tracebacks are the notebook's."""

    source: str
    python: str
    number: int


def read_cell(shell: Any, body: str) -> Cell:
    source = "\n" + body
    # get_ipython().execution_count is the running cell's own number while it runs
    return Cell(source, shell.transform_cell(source), shell.execution_count)
