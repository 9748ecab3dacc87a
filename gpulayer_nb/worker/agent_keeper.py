"""Keeps one torchrun agent and everything below it: `python -m gpulayer_nb.worker.agent_keeper FOLDER`.

Runs as a process of its own on the node's machine. Standard input is its lease and its commands: when it closes, everything below
ends. Owns the promise that nothing of a launch is left behind; must not know other nodes.

Being a subreaper it inherits what its descendants orphan, so the tree below it is everything that the launch has started here.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from gpulayer_nb import process
from gpulayer_nb.records import agent as words
from gpulayer_nb.records.agent import AgentOrder, AgentStatus, RankEnd
from gpulayer_nb.records.agent_folder import AgentFolder

_TICK_SECONDS = 0.05
_AFTER_FAILURE_SECONDS = 6.0  # torchrun ends a failed rank's peers itself; those that wait inside gloo hear no SIGTERM
_AFTER_ALL_ENDED_SECONDS = 4.0  # for torchrun to say goodbye once a launch has failed and its ranks are gone
_RANK_START = Path(__file__).with_name("rank_start.py")
_EXIT_CODE_FIELD = 49  # of /proc/PID/stat, counted behind the name


class Keeper:
    def __init__(self, folder: AgentFolder) -> None:
        self._folder, self._order = folder, folder.read_order()
        self._pid = 0
        self._exit_code: int | None = None  # the agent's
        self._ranks: dict[int, int] = {}  # local rank → pid
        self._ends: dict[int, RankEnd] = {}
        self._watched: dict[int, int] = {}  # pidfd → local rank
        self._reaped: dict[int, int] = {}  # exit codes by pid of what was orphaned and waited for here
        self._failed_at: float | None = None
        self._all_ended_at = math.inf
        self._is_ending = False  # somebody told us to end the launch, or a rank failed before this turn
        self._killed = False

    def run(self) -> None:
        """Starts the agent and stays until it and all below it are gone."""
        self._start()
        self._write("starting")
        while self._exit_code is None and not self._killed:
            self._turn()
        self._read_ends(0.0)  # of ranks that ended before what is ended now
        self._is_ending = True
        self._end_all()
        self._read_failures()
        self._write("over", log=self._folder.log_tail())

    def _start(self) -> None:
        order, folder = self._order, self._folder
        dies_with_us = functools.partial(process.die_with_parent, os.getpid())
        with folder.agent_log.open("ab") as log:
            # torchrun is the leader of a session of its own, so a terminal's Ctrl-C does not reach it on the side
            child = subprocess.Popen(
                command(order, folder, os.getpid()), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=order.folder,
                env=environment(order, os.environ), start_new_session=True, preexec_fn=dies_with_us,
            )  # fmt: skip
        self._pid = child.pid
        child.returncode = 0  # reaped below together with what was orphaned; Popen must not wait for it

    def end(self) -> None:
        """Ends the launch on this node at the next turn."""
        self._killed = True

    def _turn(self) -> None:
        if self._read_ends(_TICK_SECONDS):
            self._obey(os.read(0, 1024))
        self._reap()
        self._find_ranks()
        if self._failed_at is not None and time.monotonic() > self._deadline():
            self.end()

    def _read_ends(self, seconds: float) -> bool:
        """Waits for ends of ranks and takes them in; whether there is something to obey."""
        ready, _, _ = select.select([0, *self._watched], [], [], seconds)
        self._reap_agent()  # before its ranks: they die of its death, and whoever reads of theirs is to see the cause
        # before this turn's ends: which of several in one turn was first, nobody knows
        self._is_ending = self._is_ending or self._failed_at is not None
        for descriptor in ready:
            if descriptor in self._watched:
                self._rank_ended(descriptor)
        return 0 in ready

    def _deadline(self) -> float:
        """When what is left of a failed launch is killed."""
        patience = self._failed_at + _AFTER_FAILURE_SECONDS if self._failed_at is not None else math.inf
        return min(patience, self._all_ended_at + _AFTER_ALL_ENDED_SECONDS)

    def _obey(self, said: bytes) -> None:
        self._is_ending = True
        for word in (said[at : at + 1] for at in range(len(said))):
            if word == words.INTERRUPT:
                _signal(self._pid, signal.SIGINT)  # torchrun hands it on to its ranks, as it does with Ctrl-C
            elif word == words.TERMINATE:
                for pid in process.children_of(os.getpid()):
                    _signal(pid, signal.SIGTERM)
            elif word == words.KILL:
                self.end()
        if not said:
            self.end()

    def _find_ranks(self) -> None:
        if len(self._ranks) == self._order.devices:
            return
        for pid in process.children_of(self._pid):
            local_rank = _local_rank(pid)
            if local_rank is not None and local_rank not in self._ranks:
                self._ranks[local_rank] = pid
                with contextlib.suppress(ProcessLookupError, AttributeError, OSError):  # gone, or a system without pidfd
                    self._watched[os.pidfd_open(pid)] = local_rank
                self._write("running")

    def _rank_ended(self, descriptor: int) -> None:
        local_rank = self._watched.pop(descriptor)
        os.close(descriptor)
        pid = self._ranks[local_rank]
        code = self._reaped[pid] if pid in self._reaped else _zombie_exit_code(pid)
        self._ends[local_rank] = RankEnd(code, time.time(), self._is_ending)
        if code and self._failed_at is None:
            self._failed_at = time.monotonic()
        if len(self._ends) == self._order.devices:
            self._all_ended_at = time.monotonic()
        self._write("running")

    def _reap_agent(self) -> None:
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._exit_code = os.waitstatus_to_exitcode(status)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._pid:
                    self._exit_code = os.waitstatus_to_exitcode(status)
                self._reaped[pid] = os.waitstatus_to_exitcode(status)

    def _end_all(self) -> None:
        """SIGKILL until nothing is left: whoever is forked meanwhile is found in the next round."""
        deadline = time.monotonic() + 5.0
        while below := process.children_of(os.getpid()):
            for pid in below:
                _signal(pid, signal.SIGKILL)
            self._reap()
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)

    def _read_failures(self) -> None:
        """torchrun's own list of exit codes is exact where a glance at a zombie may have come too late."""
        for descriptor in list(self._watched):
            self._rank_ended(descriptor)
        failures: dict[str, int] = {}
        with contextlib.suppress(FileNotFoundError, ValueError):
            failures = json.loads(self._folder.failures_file.read_text())
        now = time.time()
        for local_rank, code in ((int(rank), code) for rank, code in failures.items()):
            known = self._ends.get(local_rank)
            self._ends[local_rank] = RankEnd(code, known.time if known else now)
        if self._exit_code == 0:
            for local_rank, end in self._ends.items():
                self._ends[local_rank] = end if end.exit_code is not None else replace(end, exit_code=0)

    def _write(self, phase: str, log: str = "") -> None:
        self._folder.write_status(
            AgentStatus(phase=phase, pid=self._pid, pids=self._ranks, ends=self._ends, exit_code=self._exit_code, log=log)
        )


def command(order: AgentOrder, folder: AgentFolder, keeper: int) -> list[str]:
    """The agent's command line: torchrun with a static rendezvous."""
    return [
        sys.executable, "-m", "gpulayer_nb.engine.torchrun", str(folder.failures_file), order.accelerator,
        f"--nnodes={order.nodes}", f"--node-rank={order.node_rank}", f"--nproc-per-node={order.devices}",
        "--rdzv-backend=static", f"--master-addr={order.master_addr}", f"--master-port={order.master_port}",
        "--max-restarts=0", "--redirects=3", f"--log-dir={folder.rank_logs}", "--no-python",
        sys.executable, "-S", "-E", str(_RANK_START), str(keeper), order.script, *order.arguments,
    ]  # fmt: skip


def environment(order: AgentOrder, own: os._Environ[str] | dict[str, str]) -> dict[str, str]:
    """The agent's environment; its ranks inherit it. What the user gave wins."""
    found = dict(own)
    found["GPULAYER_LAUNCHED"] = order.run_id
    if order.accelerator == "cpu":
        found["CUDA_VISIBLE_DEVICES"] = ""
    if order.interface:
        found.setdefault("GLOO_SOCKET_IFNAME", order.interface)
        found.setdefault("NCCL_SOCKET_IFNAME", f"={order.interface}")
    return {**found, **order.env}


def _local_rank(pid: int) -> int | None:
    """From a process's environment; None for one that is no rank of torchrun, or not yet."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    found = {name: value for name, _, value in (variable.partition(b"=") for variable in variables)}
    value = found.get(b"LOCAL_RANK", b"")
    return int(value) if value.isdigit() and b"RANK" in found else None


def _zombie_exit_code(pid: int) -> int | None:
    """How a process that nobody has waited for yet ended; None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return os.waitstatus_to_exitcode(int(fields[_EXIT_CODE_FIELD])) if fields[0] == "Z" else None


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def main() -> None:
    process.adopt_orphans()
    keeper = Keeper(AgentFolder(Path(sys.argv[1])))
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):  # handlers, not SIG_IGN, which the ranks would inherit
        signal.signal(number, lambda *_: keeper.end())
    keeper.run()


if __name__ == "__main__":
    main()
