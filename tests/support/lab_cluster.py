"""A cluster on the lab's hosts: a controller on head, `gpulayer worker start` on others, as people type them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hostlab import Host, Lab

GPULAYER = [sys.executable, "-m", "gpulayer_nb"]
CLUSTERS = Path("/tmp/gpulayer-0")  # on head
START_SECONDS = 90.0


class LabCluster:
    """The controller's files are copied to the lab's shared folder, as one would copy them to the other machines."""

    def __init__(self, lab: Lab, name: str = "lab") -> None:
        self.lab, self.name = lab, name
        self.engine_file, self.client_file = lab.folder / f"{name}-engine.json", lab.folder / f"{name}-client.json"
        self.controller: subprocess.Popen[bytes] | None = None
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: dict[str, Path] = {}

    def start_controller(self, *options: str) -> None:
        head = self.lab["head"]
        command = [*GPULAYER, "controller", "start", "--ip", head.address, "--name", self.name, *options]
        self.controller = self._start(head, "controller", command)
        self.wait_for("controller", "Ports to open", self.controller)
        for name in ("engine", "client"):
            source = CLUSTERS / self.name / "security" / f"ipcontroller-{name}.json"
            head.run(["cp", source, self.lab.folder / f"{self.name}-{name}.json"])

    def start_workers(self, *hosts: str, options: Sequence[str] = ("--devices", "2")) -> None:
        """Starts a worker on each of these hosts and waits until all have loaded torch."""
        for name in hosts:
            command = [*GPULAYER, "worker", "start", "--controller", self.engine_file, *options]
            self.workers[name] = self._start(self.lab[name], name, command)
        for name in hosts:
            self.wait_for(name, "It ends with this process", self.workers[name])
        self.wait_until_ready()

    def wait_until_ready(self, count: int | None = None) -> None:
        """Until so many workers have loaded torch; without a number all that run, of which one may be about to end."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            rows = self.listed()
            wanted = len([p for p in self.workers.values() if p.poll() is None]) if count is None else count
            if len(rows) >= wanted and not any("loading" in row for row in rows):
                return
            assert time.monotonic() < deadline, rows
            time.sleep(0.2)

    def revive(self, count: int) -> None:
        """Like `wait_until_ready`, after an outage that may have been too long for a worker: one that has ended starts again."""
        deadline = time.monotonic() + START_SECONDS
        while len(rows := self.listed()) < count or any("loading" in row for row in rows):
            for name in [name for name, process in self.workers.items() if process.poll() is not None]:
                self.start_workers(name)
            assert time.monotonic() < deadline, rows
            time.sleep(0.2)

    def listed(self) -> list[str]:
        """The rows of `gpulayer worker list`."""
        done = self.lab["head"].run([*GPULAYER, "worker", "list", "--target", self.client_file], check=False)
        return done.stdout.splitlines()[1:]

    def try_worker(self, host: str, *options: str) -> subprocess.CompletedProcess[str]:
        """A worker that is expected to refuse."""
        return self.lab[host].run([*GPULAYER, "worker", "start", "--controller", self.engine_file, *options], check=False)

    def said(self, name: str) -> str:
        return self._logs[name].read_text()

    def wait_for(self, name: str, words: str, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while words not in self.said(name):
            assert process.poll() is None and time.monotonic() < deadline, self.said(name)
            time.sleep(0.02)

    def _start(self, host: Host, name: str, command: Sequence[str | Path]) -> subprocess.Popen[bytes]:
        log = self._logs[name] = self.lab.folder / f"{name}-{time.monotonic_ns()}.log"
        return host.start(command, log=log)

    def stop_workers(self, *hosts: str) -> None:
        for name in hosts:
            self.workers[name].terminate()
            self.workers.pop(name).wait(15.0)

    def end(self) -> None:
        for process in [*self.workers.values(), *([self.controller] if self.controller else [])]:
            process.terminate()
        for process in [*self.workers.values(), *([self.controller] if self.controller else [])]:
            process.wait(15.0)
