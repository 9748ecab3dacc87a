"""Workers of this machine under a controller of their own, as several machines would be."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from real_notebook import notebook

__all__ = ["notebook"]

START_SECONDS = 60.0


@dataclass
class Processes:
    """`gpulayer` commands that run until the test is over; each one's output is in a file of its name."""

    folder: Path
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        return self.run(name, [sys.executable, "-m", "gpulayer_nb", *arguments])

    def run(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.out").open("wb") as output:
            made = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        self.started[name] = made
        return made

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text()

    def wait_for(self, name: str, words: str) -> str:
        deadline = time.monotonic() + START_SECONDS
        while words not in self.said(name):
            assert self.started[name].poll() is None, self.said(name)
            assert time.monotonic() < deadline, self.said(name)
            time.sleep(0.02)
        return self.said(name)

    def end(self) -> None:
        for process in reversed(self.started.values()):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.started.values():
            process.wait(20.0)


@dataclass
class LoopbackCluster:
    processes: Processes
    engine_file: Path
    client_file: Path


def start_controller(processes: Processes, name: str) -> LoopbackCluster:
    processes.start("controller", "controller", "start", "--name", name)
    said = processes.wait_for("controller", "Ports to open").split()
    engine_file, client_file = (
        next(Path(word) for word in said if word.endswith(f"-{who}.json")) for who in ("engine", "client")
    )
    return LoopbackCluster(processes, engine_file, client_file)


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackCluster]:
    """A controller on loopback, without a worker."""
    processes = Processes(tmp_path_factory.mktemp("controller"))
    try:
        yield start_controller(processes, "without-workers")
    finally:
        processes.end()


@pytest.fixture(scope="module")
def loopback(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackCluster]:
    """A controller on loopback and two workers, a and b, of two devices each: two nodes as far as anyone can tell."""
    processes = Processes(tmp_path_factory.mktemp("cluster"))
    try:
        cluster = start_controller(processes, "two-workers")
        for name in ("a", "b"):
            processes.start(name, "worker", "start", "--controller", str(cluster.engine_file), "--devices", "2", "--name", name)
        yield cluster
    finally:
        processes.end()
