"""A magic's cell: its text with the notebook's line numbers, its text as plain Python, its number."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass(frozen=True)
class Cell:
    """`source` starts with a comment in the magic's place, so that line numbers in tracebacks are the notebook's."""

    source: str
    python: str
    number: int


def read_cell(shell: Any, magic: str, line: str, body: str) -> Cell:
    source = f"# {magic} {line}".rstrip() + "\n" + body
    return Cell(source, shell.transform_cell(source), running_number(shell, sys._getframe()))


def running_number(shell: Any, frame: FrameType | None) -> int:
    """Execution count of the cell that is running. The shell's own counter is one ahead in some releases of IPython (9.18)."""
    cells: dict[str, int] = shell.compile._filename_map
    while frame is not None:
        if frame.f_code.co_filename in cells:
            return cells[frame.f_code.co_filename]
        frame = frame.f_back
    return int(shell.execution_count)
