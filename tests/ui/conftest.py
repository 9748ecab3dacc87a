"""Gives tests the made-up run, and a real kernel to show it in."""

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import gpulayer_nb
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import Record

HERE = Path(__file__).parent
ROOT = Path(gpulayer_nb.__file__).parents[1]
PREAMBLE = f"""
import importlib.util, sys, time
sys.path.insert(0, {str(ROOT)!r})
spec = importlib.util.spec_from_file_location("recorded_run", {str(HERE / "recorded_run.py")!r})
run = importlib.util.module_from_spec(spec); spec.loader.exec_module(run)
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.ui.choose import choose_view
"""


@pytest.fixture(scope="session")
def recorded_run() -> ModuleType:
    spec = importlib.util.spec_from_file_location("recorded_run", HERE / "recorded_run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["recorded_run"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def told(recorded_run: ModuleType) -> Callable[..., RunHistory]:
    """A history that has been told a made-up run."""

    def tell(**options: Any) -> RunHistory:
        history = RunHistory(lambda: 1030.0)
        for record in recorded_run.recorded(**options):
            history.apply(record)
        return history

    return tell


@dataclass
class Cell:
    """What came back from one cell."""

    outputs: list[Any]
    messages: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)  # arrival in seconds, type, content


class Kernel(NotebookClient):  # type: ignore[misc]  # nbclient has no annotations
    """A real kernel that runs one cell at a time and remembers every message of it."""

    def run(self, source: str) -> Cell:
        cell = nbformat.v4.new_code_cell(source)
        self.nb.cells.append(cell)
        self.messages: list[tuple[float, str, dict[str, Any]]] = []
        self.execute_cell(cell, len(self.nb.cells) - 1)
        return Cell(cell.outputs, self.messages)

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        self.messages.append((time.monotonic(), msg["msg_type"], msg["content"]))
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(scope="session")
def kernel() -> Iterator[Kernel]:
    client = Kernel(nbformat.v4.new_notebook(), timeout=60, kernel_name="python3")
    with client.setup_kernel():
        client.run(PREAMBLE)
        yield client


@pytest.fixture
def apply_all() -> Callable[[RunHistory, Iterator[Record]], None]:
    def apply(history: RunHistory, records: Iterator[Record]) -> None:
        for record in records:
            history.apply(record)

    return apply
