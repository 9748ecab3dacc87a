"""A notebook in this process, and ranks in real second processes that unpack what it ships."""

from __future__ import annotations

import linecache
import os
import pickle
import select
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gpulayer_nb.shipping.blobs import BlobStore
from gpulayer_nb.shipping.packer import Packer
from gpulayer_nb.shipping.shipment import Shipment
from gpulayer_nb.shipping.unpacker import Unpacker

RESERVED = frozenset({"rank", "local_rank", "node_rank", "world_size", "device", "dist", "torch"})
ANSWER_SECONDS = 60.0


class Notebook:
    """A fresh `__main__` with cells that tracebacks can name, as ipykernel makes them."""

    def __init__(self, blobs: BlobStore) -> None:
        self.module = ModuleType("__main__")
        self.namespace: dict[str, Any] = vars(self.module)
        self.blobs = blobs
        self.packer = Packer(self.namespace, blobs, RESERVED)
        self.unpacker = Unpacker(self.namespace)
        self._cells = 0

    def cell(self, source: str) -> None:
        self._cells += 1
        filename = f"/tmp/ipykernel_1/{self._cells}.py"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        exec(compile(source, filename, "exec", dont_inherit=True), self.namespace)

    def __getitem__(self, name: str) -> Any:
        return self.namespace[name]


class Rank:
    """A second Python process with its own `__main__`. Owned by the fixture, which ends it."""

    def __init__(self, kind: str) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        script = Path(__file__).with_name("rank_process.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    def ask(self, command: str, *arguments: object) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        data = pickle.dumps((command, arguments))
        self.process.stdin.write(struct.pack("<Q", len(data)) + data)
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], ANSWER_SECONDS)[0]:
            raise TimeoutError(f"the rank process did not answer {command} within {ANSWER_SECONDS} s")
        size = struct.unpack("<Q", self._read(8))[0]
        good, answer = pickle.loads(self._read(size))
        if not good:
            raise answer
        return answer

    def _read(self, size_bytes: int) -> bytes:
        assert self.process.stdout is not None
        data = self.process.stdout.read(size_bytes)
        if len(data) < size_bytes:
            raise EOFError(f"the rank process ended with code {self.process.wait(5)}")
        return data

    def unpack(self, shipment: Shipment) -> tuple[str, ...]:
        names: tuple[str, ...] = self.ask("unpack", shipment)
        return names

    def run(self, source: str) -> Any:
        """Run the source there; the value of its last line, if that is an expression, comes back by plain pickle."""
        return self.ask("run", source)

    def bring(self, *names: str) -> Shipment:
        shipment: Shipment = self.ask("bring", names)
        return shipment

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


@pytest.fixture
def notebook(blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> Notebook:
    made = Notebook(blobs)
    monkeypatch.setitem(sys.modules, "__main__", made.module)
    return made


@pytest.fixture(scope="session")
def _plain_process() -> Iterator[Rank]:
    made = Rank("plain")
    yield made
    made.close()


@pytest.fixture
def rank(_plain_process: Rank) -> Rank:
    """One process serves all tests of a session; its namespace is emptied for each."""
    _plain_process.ask("empty")
    return _plain_process


@pytest.fixture
def ipython_rank() -> Iterator[Rank]:
    made = Rank("ipython")
    yield made
    made.close()


@pytest.fixture
def ship(notebook: Notebook, rank: Rank) -> Callable[[str], Any]:
    """Pack a cell, unpack and run it on the rank, commit; returns the cell's last value."""

    def send(source: str) -> Any:
        shipment = notebook.packer.pack_cell(source)
        rank.unpack(shipment)
        notebook.packer.commit(shipment)
        return rank.run(source)

    return send
