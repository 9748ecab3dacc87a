"""Workers on hosts that ssh reaches, one ssh each, all at once.

Runs in the kernel. ipyparallel's own SSH launcher starts engines one after the other and leaves them behind when the connection
ends; here the connection is the lease: each ssh's standard input is a pipe from this process, the connection file goes through it
first, and when it closes (this process ends, ssh is killed, the network goes) the worker ends with its engines.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from pathlib import Path
from typing import Any

from gpulayer_nb.client.cluster import Say
from gpulayer_nb.client.provision.ssh_command import destination, said, ssh_command, worker_name
from gpulayer_nb.client.provision.wishes import SshWishes
from gpulayer_nb.errors import ClusterError
from gpulayer_nb.plan.topology import count

_OTHERS_SECONDS = 1.0  # so that one message names all bad hosts
_END_SECONDS = 5.0


def host_address(wishes: SshWishes) -> str | None:
    """The first host's name or address as ssh itself resolves it (its config may have aliases)."""
    try:
        done = subprocess.run(
            [*wishes.ssh, "-G", "--", wishes.hosts[0]], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10.0,
            start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise ClusterError(f"This machine has no `{wishes.ssh[0]}`. Next: install OpenSSH's client.") from None
    except subprocess.TimeoutExpired:
        return wishes.hosts[0]
    return destination(done.stdout) or wishes.hosts[0]


class SshWorkers:
    """One worker on each host. StartedWorkers."""

    def __init__(self, wishes: SshWishes, logs: Path) -> None:
        self._wishes, self._logs = wishes, logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}  # by host

    def start(self, info: dict[str, Any], say: Say) -> None:
        line = json.dumps(info).encode() + b"\n"
        for host in self._wishes.hosts:
            with self._log(host).open("wb") as log:
                running = subprocess.Popen(
                    ssh_command(self._wishes, host), stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
                )
            self._running[host] = running
            assert running.stdin is not None
            try:
                running.stdin.write(line)
                running.stdin.flush()
            except BrokenPipeError:
                continue  # it has ended; progress() says why
        say(f"ssh to {count(len(self._running), 'host')}")

    def progress(self) -> str:
        bad = self._ended_hosts()
        if not bad:
            return ""
        deadline = time.monotonic() + _OTHERS_SECONDS
        while len(bad) < len(self._running) and time.monotonic() < deadline:
            time.sleep(0.05)
            bad = self._ended_hosts()
        lines = "\n".join(f"  {host}: {self._words_of(host)}" for host in bad)
        raise ClusterError(f"{count(len(bad), 'host')} of {len(self._running)} did not start a worker.\n{lines}")

    def is_lost(self, worker: str) -> bool:
        return self._host_of(worker) in self._ended_hosts()

    def why_lost(self, worker: str) -> str | None:
        host = self._host_of(worker)
        if host is None or host not in self._ended_hosts():
            return None
        return f"the ssh to {host} has ended, and worker {worker} with it: {self._words_of(host)}"

    def ended(self) -> str | None:
        bad = self._ended_hosts()
        if not bad:
            return None
        return "; ".join(f"the ssh to {host} has ended: {self._words_of(host)}" for host in bad)

    @property
    def leases(self) -> tuple[int, ...]:
        return tuple(running.stdin.fileno() for running in self._running.values() if running.stdin is not None)

    def let_go(self) -> None:
        self._close_leases()
        self._running.clear()

    def _close_leases(self) -> None:
        for running in self._running.values():
            if running.stdin is not None:
                with contextlib.suppress(BrokenPipeError):  # what it never took of the connection file
                    running.stdin.close()

    def end(self) -> None:
        self._close_leases()
        deadline = time.monotonic() + _END_SECONDS
        for running in self._running.values():
            try:
                running.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait(2.0)
        self._running.clear()

    def _ended_hosts(self) -> list[str]:
        return [host for host, running in self._running.items() if running.poll() is not None]

    def _host_of(self, worker: str) -> str | None:
        return next((host for host in self._running if worker_name(host) == worker), None)

    def _words_of(self, host: str) -> str:
        code = self._running[host].poll()
        words = said(self._log(host).read_text(errors="replace"))
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return f"{'; '.join(words)} ({how})" if words else how

    def _log(self, host: str) -> Path:
        return self._logs / f"ssh-{worker_name(host)}.log"
