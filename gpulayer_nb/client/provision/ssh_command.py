"""The ssh command of one host, and hosts as they are typed. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from gpulayer_nb.client.provision.wishes import SshWishes
from gpulayer_nb.errors import UsageError

# A notebook cannot answer a question, and a host that is gone should be known in seconds.
OPTIONS = ("-T", "-oBatchMode=yes", "-oConnectTimeout=10", "-oServerAliveInterval=3", "-oServerAliveCountMax=2")


def hosts(text: str) -> tuple[str, ...]:
    """`a,me@b` → ("a", "me@b").

    Raises:
        UsageError: no host, one twice, or one that ssh would take for an option.
    """
    found = tuple(host.strip() for host in text.split(",") if host.strip())
    if not found:
        raise UsageError("--hosts is empty; write ssh's destinations, as in `--hosts a,me@b`.")
    for host in found:
        if host.startswith("-") or any(c.isspace() for c in host):
            raise UsageError(f"--hosts has {host!r}; that is no host. Options for ssh belong into `--ssh` or your ~/.ssh/config.")
    twice = sorted({host for host in found if found.count(host) > 1})
    if twice:
        raise UsageError(
            f"--hosts has {', '.join(twice)} more than once; there is one worker a host. Next: `--devices` says how many ranks."
        )
    return found


def worker_name(host: str) -> str:
    """How the worker on a host is called: `me@b.example` → `b.example`, `ssh://me@b:2222` → `b-2222`."""
    plain = host.removeprefix("ssh://").rpartition("@")[2]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip("-._") or "worker"


def remote_command(wishes: SshWishes, host: str) -> str:
    """For the login shell of the host, whichever it is. The connection file comes over standard input, which is the lease too."""
    env = [f"{name}={value}" for name, value in wishes.env.items()]
    command = [*wishes.worker_command(), "--controller=-", f"--name={worker_name(host)}"]
    return "exec " + shlex.join([*(["env", *env] if env else []), *command])


def ssh_command(wishes: SshWishes, host: str) -> list[str]:
    return [*wishes.ssh, *OPTIONS, "--", host, remote_command(wishes, host)]


def destination(printed: str) -> str | None:
    """The machine's name or address from what `ssh -G` prints."""
    for line in printed.splitlines():
        word, _, value = line.partition(" ")
        if word == "hostname":
            return value.strip()
    return None


def said(log: str, lines: int = 3) -> Sequence[str]:
    """The last lines of what ssh and the host said."""
    return [line.strip() for line in log.splitlines() if line.strip()][-lines:]
