"""The lab: hosts on one switch, up in a fraction of a second, gone without a trace."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType

from hostlab.host import REPOSITORY, Host, die_with_parent
from hostlab.port import BRIDGE, INTERFACE, Port, _in_network_of

HOSTS = {"head": "10.77.0.1", "a": "10.77.0.11", "b": "10.77.0.12", "c": "10.77.0.13"}
PREFIX_LENGTH = 24


class Lab:
    """Hosts by name. The notebook and the controller belong on `head`.

    There is no way out: hosts reach each other and nothing else.
    """

    def __init__(self, hosts: Mapping[str, str] = HOSTS) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hostlab-"))
        self._switch: subprocess.Popen[bytes] | None = None
        shared = _shared_folders(self.folder)
        self.hosts = {name: Host(name, address, self.folder / name, shared) for name, address in hosts.items()}

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts.values())

    def __enter__(self) -> Lab:
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.down()

    def up(self) -> None:
        self._switch = subprocess.Popen(
            ["unshare", "--net", "--", "sleep", "infinity"],
            stdin=subprocess.DEVNULL,
            preexec_fn=functools.partial(die_with_parent, os.getpid()),
        )
        self._wait_for_switch()
        self._on_switch("ip", "link", "add", BRIDGE, "type", "bridge")
        self._on_switch("ip", "link", "set", BRIDGE, "up")
        for host in self:
            self.boot(host.name)

    def boot(self, name: str) -> Host:
        """Turns a host on and wires it; also one that was turned off before."""
        host = self.hosts[name]
        host.folder.mkdir(exist_ok=True)
        lines = ["127.0.0.1 localhost", *(f"{other.address} {other.name}" for other in self)]
        host.hosts_file.write_text("\n".join(lines) + "\n")
        host.power_on()
        assert self._switch is not None
        host.port = port = Port(name, self._switch.pid, host.init_pid)
        if port.name in self._on_switch("ip", "-o", "link", "show"):  # of a host that was turned off a moment ago
            self._on_switch("ip", "link", "delete", port.name)
        peer = ("peer", "name", INTERFACE, "address", _hardware_address(host.address), "netns", str(host.init_pid))
        self._on_switch("ip", "link", "add", port.name, "type", "veth", *peer)
        self._on_switch("ip", "link", "set", port.name, "master", BRIDGE, "up")
        length, *how = ("64", "nodad") if ":" in host.address else (PREFIX_LENGTH,)
        port.on_host("ip", "addr", "add", f"{host.address}/{length}", "dev", INTERFACE, *how)
        port.on_host("ip", "link", "set", INTERFACE, "up")
        return host

    def mend(self) -> None:
        """Every host is on, every cable as new, and packets arrive again."""
        for host in self:
            if host.is_on:
                host.port.mend()
            else:
                self.boot(host.name)
        for host in self:
            self._wait_until_reached(host)

    def _wait_until_reached(self, host: Host) -> None:
        """A carrier takes a moment to come back, a neighbour that was given up another."""
        others = [other.address for other in self if other is not host]
        deadline = time.monotonic() + 20.0
        while others:
            asked = host.run(["ping", "-c1", "-W1", others[-1]], check=False)
            if asked.returncode == 0:
                others.pop()
            elif time.monotonic() > deadline:
                raise RuntimeError(f"{host.name} does not reach {others[-1]}: {asked.stdout}{asked.stderr}")

    def down(self) -> None:
        """Ends every process on every host, the hosts and the switch."""
        for host in self:
            host.power_off()
        switch, self._switch = self._switch, None
        if switch is not None:
            switch.kill()
            switch.wait(5.0)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _on_switch(self, *command: str) -> str:
        assert self._switch is not None
        return _in_network_of(self._switch.pid, command)

    def _wait_for_switch(self) -> None:
        assert self._switch is not None
        ours, deadline = os.readlink("/proc/self/ns/net"), time.monotonic() + 5.0
        while os.readlink(f"/proc/{self._switch.pid}/ns/net") == ours:
            if time.monotonic() > deadline:
                raise RuntimeError("the switch did not start")
            time.sleep(0.002)


def _hardware_address(address: str) -> str:
    """The same after a reboot, as a real card's: others have it in their caches."""
    return "02:00:" + ":".join(f"{part:02x}" for part in ip_address(address).packed[-4:])


def _shared_folders(folder: Path) -> list[Path]:
    return [REPOSITORY, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), folder]
