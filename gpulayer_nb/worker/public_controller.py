"""A controller that workers of any machine may join: what `gpulayer controller start` does.

Runs in a terminal (or a service), as the parent of the controller, which ends with it. Owns the cluster's folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from gpulayer_nb import process
from gpulayer_nb.errors import ClusterError, UsageError
from gpulayer_nb.link.ports import taken_ports
from gpulayer_nb.plan.addresses import ANY, is_loopback, plain
from gpulayer_nb.records.cluster_folder import ClusterFolder, clusters_root
from gpulayer_nb.records.connection_file import controller_address, read_if_whole
from gpulayer_nb.worker.controller import PORTS
from gpulayer_nb.worker.interfaces import interfaces

_START_SECONDS = 60.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

Say = Callable[[str], None]


def check_name(name: str, option: str = "--name") -> str:
    """Names are parts of paths and of ipyparallel's ids.

    Raises:
        UsageError: this is none.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{option} is {name!r}; it consists of letters, digits, dots, hyphens and underscores, as in `lab-1`.")
    return name


def check_ports(text: str) -> str:
    """`10101` or `10101-10120` as ipyparallel writes it.

    Raises:
        UsageError: it is neither, or fewer than the controller needs.
    """
    first, dash, last = text.partition("-")
    if not first.isdigit() or (dash and not last.isdigit()):
        raise UsageError(f"--ports is {text}; it is a range as in `--ports 10101-10120`, or the first of {PORTS} ports.")
    begin, end = int(first), int(last) if dash else int(first) + PORTS - 1
    if not 0 < begin <= end < 65536 or end - begin + 1 < PORTS:
        raise UsageError(f"--ports is {text}; the controller needs {PORTS} ports between 1 and 65535.")
    return f"{begin}-{end}"


class PublicController:
    """One controller as a child of this process."""

    def __init__(self, name: str, ip: str, location: str | None = None, ports: str | None = None) -> None:
        self.name, self._ip, self._location, self._ports = check_name(name), plain(ip), location and plain(location), ports
        self.ended = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._is_ours = False
        self.folder = ClusterFolder(clusters_root() / name)

    def start(self) -> None:
        """The controller answers when this returns.

        Raises:
            UsageError: the name is taken, the address is not this machine's, a port is in use.
            ClusterError: it does not come up; with the end of its log.
        """
        self._check()
        self._is_ours = True
        self.folder = ClusterFolder.create(self.name)
        self.folder.add_owner(os.getpid(), process.start_ticks(os.getpid()))
        command = [
            sys.executable, "-m", "gpulayer_nb.worker.controller",
            f"--folder={self.folder.path}", f"--ip={self._ip}", f"--parent={os.getpid()}", "--joined",
            *([f"--location={self._location}"] if self._location else []),
            *([f"--ports={self._ports}"] if self._ports else []),
        ]  # fmt: skip
        with (self.folder.logs / "controller.log").open("ab") as log:
            self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + _START_SECONDS
        while self._info() is None:
            if self._child.poll() is not None or time.monotonic() > deadline:
                tail = self.folder.log_tail("controller.log")
                self.end()
                raise ClusterError(f"The controller did not come up. Last lines of its log:\n{tail or '(empty)'}")
            time.sleep(0.02)
        self.folder.card.write_text(json.dumps({"name": self.name, "address": controller_address(self._info() or {})}))

    def _check(self) -> None:
        owners = ClusterFolder(clusters_root() / self.name).owners()
        if owners is not None and any(process.is_running(pid, ticks) for pid, ticks in owners):
            raise UsageError(
                f"A cluster named {self.name} is running on this machine already. Next: use it (`--target {self.name}`), "
                "or give this one another `--name`."
            )
        if self._ip in ANY and not self._location:
            raise UsageError(
                f"--ip {self._ip} listens on every address, so the workers need to be told which one to dial. "
                "Next: `--ip` with that address, or `--location` with a name or address that leads here."
            )
        if self._ip not in ANY and not is_loopback(self._ip):
            own = interfaces()
            if all(self._ip not in addresses for addresses in own.values()):
                listed = ", ".join(f"{name} {' '.join(addresses)}" for name, addresses in own.items() if addresses)
                raise UsageError(f"--ip {self._ip} is no address of this machine, which has the interfaces {listed}.")
        if not is_loopback(self._ip):
            _check_curve()
        if self._ports:
            _check_free("" if self._ip in ANY else self._ip, self._ports)

    def _info(self) -> dict[str, Any] | None:
        whole = read_if_whole(self.folder.client_file)
        return read_if_whole(self.folder.engine_file) if whole is not None else None

    def ports(self) -> list[int]:
        """Every port that workers and notebooks dial."""
        found: set[int] = set()
        for path in (self.folder.engine_file, self.folder.client_file):
            for value in (read_if_whole(path) or {}).values():
                found |= {v for v in (value if isinstance(value, list) else [value]) if type(v) is int}
        return sorted(found)

    def wait(self) -> int:
        """Until it is told to end, or the controller ends; the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup's wish stands
                signal.signal(number, lambda *_: self.ended.set())
        while not self.ended.wait(0.5):
            if self._child is None or self._child.poll() is not None:
                return 1
        return 0

    def end(self) -> None:
        if self._child is not None:
            self._child.kill()  # its schedulers end with it
            self._child.wait(timeout=10.0)
        if not self._is_ours:
            return  # the folder is that of another cluster of this name
        shutil.rmtree(self.folder.blobs, ignore_errors=True)
        shutil.rmtree(self.folder.path, ignore_errors=True)


def _check_curve() -> None:
    import zmq

    if not zmq.has("curve"):
        raise ClusterError(
            "The zmq library of this machine cannot encrypt (it was built without CURVE), so the controller stays on loopback: "
            "who reaches its ports could run code. Next: `pip install --force-reinstall pyzmq`, or `--ip 127.0.0.1` and a tunnel."
        )


def _check_free(ip: str, ports: str) -> None:
    first, _, last = ports.partition("-")
    if taken := taken_ports(ip, range(int(first), int(last) + 1)):
        listed = ", ".join(f"{port} ({why})" for port, why in taken.items())
        raise UsageError(f"Ports are not free on {ip or 'this machine'}: {listed}. Next: another range for `--ports`.")


def ranges(ports: Sequence[int]) -> str:
    """`10101-10118, 45123`."""
    runs: list[list[int]] = []
    for port in sorted(ports):
        if runs and port == runs[-1][1] + 1:
            runs[-1][1] = port
        else:
            runs.append([port, port])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
