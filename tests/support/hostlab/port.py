"""A host's place on the switch: its cable, and what can be wrong with it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

INTERFACE = "eth0"
BRIDGE = "br0"
_TABLE = "lab"  # nftables


class Port:
    """One host's cable. Every fault can be taken back; `mend` takes all of them back."""

    def __init__(self, name: str, switch_pid: int, host_pid: int) -> None:
        self.name = f"p-{name}"
        self._switch_pid, self._host_pid = switch_pid, host_pid

    def on_switch(self, *command: str) -> str:
        return _in_network_of(self._switch_pid, command)

    def on_host(self, *command: str) -> str:
        return _in_network_of(self._host_pid, command)

    def pull_cable(self) -> None:
        """The host sees its carrier go; nobody else is told."""
        self.on_switch("ip", "link", "set", self.name, "down")

    def plug_cable(self) -> None:
        self.on_switch("ip", "link", "set", self.name, "up")

    def swallow(self) -> None:
        """A black hole: the carrier stays, and whatever is sent is lost without a word."""
        self.on_switch("ip", "link", "set", self.name, "nomaster")

    def forward(self) -> None:
        self.on_switch("ip", "link", "set", self.name, "master", BRIDGE)

    def close_ports(self, first: int, last: int, *, silently: bool = True) -> None:
        """A firewall on the host: TCP to these ports is dropped, or refused."""
        verdict = ("drop",) if silently else ("reject", "with", "tcp", "reset")
        self._rule(
            "iifname", INTERFACE, "tcp", "dport", f"{first}-{last}", "tcp", "flags", "&", "(syn|ack)", "==", "syn", *verdict
        )

    def lose(self, percent: int) -> None:
        """So many of a hundred packets to the host are lost."""
        self._rule("iifname", INTERFACE, "numgen", "random", "mod", "100", "<", str(percent), "drop")

    def limit(self, rate: str) -> None:
        """Both directions; tc's words, for example `100mbit`."""
        tbf = ("root", "tbf", "rate", rate, "burst", "64kb", "latency", "400ms")
        self.on_host("tc", "qdisc", "replace", "dev", INTERFACE, *tbf)
        self.on_switch("tc", "qdisc", "replace", "dev", self.name, *tbf)

    def add_address(self, address: str) -> None:
        """Another address, with its prefix length: `10.78.0.5/24`."""
        self.on_host("ip", "addr", "add", address, "dev", INTERFACE, *(("nodad",) if ":" in address else ()))

    def remove_address(self, address: str) -> None:
        self.on_host("ip", "addr", "del", address, "dev", INTERFACE)

    def mend(self) -> None:
        """The cable as new; addresses stay."""
        self.plug_cable()
        self.forward()
        subprocess.run(self._nft("delete", "table", "inet", _TABLE), capture_output=True, timeout=10)
        for pid, device in ((self._host_pid, INTERFACE), (self._switch_pid, self.name)):
            subprocess.run(
                _entering(pid, ("tc", "qdisc", "del", "dev", device, "root")), capture_output=True, timeout=10
            )  # fails where there was no limit

    def _rule(self, *words: str) -> None:
        for command in (
            ("add", "table", "inet", _TABLE),
            ("add", "chain", "inet", _TABLE, "in", "{ type filter hook input priority 0 ; }"),
            ("add", "rule", "inet", _TABLE, "in", *words),
        ):
            self.on_host("nft", *command)

    def _nft(self, *words: str) -> list[str]:
        return _entering(self._host_pid, ("nft", *words))


def _entering(pid: int, command: Sequence[str]) -> list[str]:
    return ["nsenter", "-t", str(pid), "--net", "--", *command]


def _in_network_of(pid: int, command: Sequence[str]) -> str:
    done = subprocess.run(_entering(pid, command), capture_output=True, text=True, timeout=20)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
