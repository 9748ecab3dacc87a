"""Real gloo ranks for tests: `ranks(4, function)` runs `function(rank)` in four processes and returns the four results."""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # tests and ranks import train_examples by name

START_SECONDS = 60
LIMIT_SECONDS = 40


class RankError(AssertionError):
    """A rank raised; `errors[rank]` is its exception, None where there was none."""

    def __init__(self, message: str, errors: list[BaseException | None]) -> None:
        super().__init__(message)
        self.errors = errors


class RankServer:
    def __init__(self) -> None:
        roots = [str(HERE), str(HERE.parent.parent), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, roots))}
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "rank_server.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment,
        )  # fmt: skip
        assert self._answer(START_SECONDS) == "ready"

    def run(self, folder: Path, world_size: int, function: Callable[[Any], Any], devices: int, seconds: float) -> list[Any]:
        module = sys.modules.get(function.__module__)
        if module is not None and module.__name__ != "__main__":
            cloudpickle.register_pickle_by_value(module)
        (folder / "function").write_bytes(cloudpickle.dumps(function))
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"folder": str(folder), "world_size": world_size, "devices": devices}) + "\n")
        self._process.stdin.flush()
        pids = json.loads(self._answer(10))
        outcomes = self._wait(folder, pids, seconds)
        errors = [outcome[1] if outcome[0] == "error" else None for outcome in outcomes]
        if any(errors):
            texts = [f"rank {rank}:\n{outcome[2]}" for rank, outcome in enumerate(outcomes) if outcome[0] == "error"]
            raise RankError("\n".join(texts), errors)
        return [outcome[1] for outcome in outcomes]

    def _wait(self, folder: Path, pids: list[int], seconds: float) -> list[Any]:
        files = [folder / f"rank-{rank}" for rank in range(len(pids))]
        deadline = time.monotonic() + seconds
        while not all(file.exists() for file in files):
            dead = [rank for rank, pid in enumerate(pids) if not files[rank].exists() and not _alive(pid)]
            if time.monotonic() > deadline or any(not files[rank].exists() for rank in dead):
                for pid in pids:
                    if _alive(pid):
                        os.kill(pid, signal.SIGKILL)
                missing = [rank for rank, file in enumerate(files) if not file.exists()]
                why = f"ended without a result: {dead}" if dead else f"gave no result in {seconds} s: {missing}"
                raise AssertionError(f"ranks {why}")
            time.sleep(0.005)
        return [pickle.loads(file.read_bytes()) for file in files]

    def _answer(self, seconds: float) -> str:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        assert ready, f"the rank server gave no answer in {seconds} s"
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="session")
def rank_server() -> Iterator[RankServer]:
    server = RankServer()
    yield server
    server.close()


@pytest.fixture
def ranks(rank_server: RankServer, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Any]]:
    """`ranks(world_size, function, devices=…, seconds=…)`: each rank's `function(rank)`; raises RankError if one raises."""

    def run(
        world_size: int, function: Callable[[Any], Any], devices: int | None = None, seconds: float = LIMIT_SECONDS
    ) -> list[Any]:
        return rank_server.run(tmp_path_factory.mktemp("ranks"), world_size, function, devices or world_size, seconds)

    return run


@pytest.fixture
def errors_of(ranks: Callable[..., list[Any]]) -> Callable[..., list[BaseException | None]]:
    """Like `ranks`, for a function that has to raise: the exception of each rank, None for a rank that raised none."""

    def run(world_size: int, function: Callable[[Any], Any], **options: Any) -> list[BaseException | None]:
        with pytest.raises(RankError) as caught:
            ranks(world_size, function, **options)
        return caught.value.errors

    return run
