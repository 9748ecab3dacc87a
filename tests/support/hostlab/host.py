"""One host: its namespaces, the commands that run there, and what still runs there."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from hostlab.availability import NAMESPACES
from hostlab.enter import _PR_SET_PDEATHSIG
from hostlab.port import Port

REPOSITORY = Path(__file__).resolve().parents[3]
START_SECONDS = 10.0
PRIVATE = ("/tmp", "/dev/shm", "/run")  # every machine has its own

# What runs first on a host: $1 its name, $2 its folder. -n: there is no table of mounts to write in a private /run.
_INIT = """
set -e
mount --make-rprivate /
mount -n -t proc proc /proc
hostname "$1"
mount -n --bind "$2/hosts" /etc/hosts
for place in $PRIVATE; do
  stage="$2/stage"
  mkdir -p "$stage"
  mount -n -t tmpfs tmpfs "$stage"
  chmod 1777 "$stage"
  for folder in $SHARED; do
    case "$folder" in "$place"/*) mkdir -p "$stage${folder#$place}"; mount -n --rbind "$folder" "$stage${folder#$place}";; esac
  done
  mount -n --move "$stage" "$place"
done
mkdir -p /run/sshd
ip link set lo up
trap '' CHLD
exec sleep infinity
"""


@dataclass(frozen=True)
class HostProcess:
    """A process of a host: `pid` as this machine counts it, `pid_there` as the host itself does."""

    pid: int
    pid_there: int
    command: str


class Host:
    """A machine of the lab. Its processes see only each other; `/tmp`, `/dev/shm` and `/run` are its own.

    Shared with all hosts, as over NFS: the repository, the Python environment and the lab's folder.
    """

    def __init__(self, name: str, address: str, folder: Path, shared: Sequence[Path]) -> None:
        self.name, self.address, self.folder = name, address, folder
        self.port: Port  # set by the lab when the host is wired
        self._shared = shared
        self._keeper: subprocess.Popen[bytes] | None = None
        self._init_pid = 0

    def __repr__(self) -> str:
        return f"Host({self.name}, {self.address})"

    @property
    def hosts_file(self) -> Path:
        """The host's /etc/hosts. Write it in place: it is bound into the host."""
        return self.folder / "hosts"

    def power_on(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._keeper = subprocess.Popen(
            ["unshare", *NAMESPACES, "--fork", "--kill-child=KILL", "--", "sh", "-c", _INIT, "sh", self.name, str(self.folder)],
            env={**os.environ, "PRIVATE": " ".join(PRIVATE), "SHARED": " ".join(shlex.quote(str(path)) for path in self._shared)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "init.log").open("wb"),
            preexec_fn=functools.partial(die_with_parent, os.getpid()),
        )
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._keeper.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"host {self.name} did not start: {(self.folder / 'init.log').read_text()}")
            time.sleep(0.005)

    def _is_ready(self) -> bool:
        assert self._keeper is not None
        try:
            children = Path(f"/proc/{self._keeper.pid}/task/{self._keeper.pid}/children").read_text().split()
            self._init_pid = int(children[0])
            return Path(f"/proc/{self._init_pid}/cmdline").read_bytes().startswith(b"sleep\0")
        except (OSError, IndexError):
            return False

    @property
    def is_on(self) -> bool:
        return self._keeper is not None and self._keeper.poll() is None

    @property
    def init_pid(self) -> int:
        """The host's first process, whose namespaces are the host's."""
        return self._init_pid

    def power_off(self) -> None:
        """All at once, as when the plug is pulled: nobody on the network is told."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._init_pid, signal.SIGKILL)
        try:
            keeper.wait(5.0)
        except subprocess.TimeoutExpired:
            keeper.kill()
            keeper.wait(5.0)

    def command(self, command: Sequence[str | Path], folder: Path | str = "/") -> list[str]:
        """What this machine has to run so that the command runs on the host."""
        enter = Path(__file__).with_name("enter.py")
        return [sys.executable, "-I", "-S", str(enter), str(self._init_pid), str(folder), *map(str, command)]

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """This process's environment with our Python first and the tree under test; nothing points to this machine's folders."""
        kept = {name: value for name, value in os.environ.items() if name not in ("XDG_RUNTIME_DIR", "PYTEST_CURRENT_TEST")}
        paths = [str(Path(sys.executable).parent), kept.get("PATH", ""), "/usr/sbin", "/sbin"]
        trees = [str(REPOSITORY), *filter(None, [kept.get("PYTHONPATH")])]
        return {
            **kept,
            "PATH": os.pathsep.join(paths),
            "PYTHONPATH": os.pathsep.join(trees),
            "OMP_NUM_THREADS": "1",
            "HOME": "/tmp",
            "IPYTHONDIR": "/tmp/.ipython",
            **(extra or {}),
        }

    def run(
        self, command: Sequence[str | Path], *, timeout: float = 30.0, check: bool = True, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on the host to its end; a failed one is an AssertionError with all it said."""
        done = subprocess.run(
            self.command(command),
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check and done.returncode:
            raise AssertionError(
                f"on {self.name}: {' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}"
            )
        return done

    def start(
        self,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        folder: Path | str = "/",
        stdin: int | IO[Any] = subprocess.DEVNULL,
        log: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Starts a command on the host; signals to it reach the command, and it ends with the host.

        Args:
            log: where its output goes; default: a file in the host's folder named after the command.
        """
        where = log or self.folder / f"{Path(command[0]).name}.log"
        with where.open("ab") as output:
            return subprocess.Popen(
                self.command(command, folder),
                env=self.environment(env),
                stdin=stdin,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def processes(self) -> list[HostProcess]:
        """All that runs on the host, apart from its first process."""
        if not self.is_on:
            return []
        mine = os.readlink(f"/proc/{self._init_pid}/ns/pid")
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self._init_pid:
                continue
            try:
                if os.readlink(entry / "ns" / "pid") != mine:
                    continue
                status = (entry / "status").read_text()
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            except OSError:
                continue  # it has just ended
            fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            if fields["State"][0] not in "ZX":
                found.append(HostProcess(int(entry.name), int(fields["NSpid"].split()[-1]), command))
        return found

    def wait_until_idle(self, seconds: float = 10.0, ignore: Sequence[str] = ()) -> list[HostProcess]:
        """Waits until nothing runs on the host, apart from commands that hold one of the words; returns what is left."""
        deadline = time.monotonic() + seconds
        while True:
            left = [process for process in self.processes() if not any(word in process.command for word in ignore)]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.05)


def die_with_parent(parent_pid: int) -> None:
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)
