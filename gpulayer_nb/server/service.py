"""Everything the panel can see and do, without HTTP.

Runs in the Jupyter server; its methods block and are called on worker threads, never on the event loop. Owns the watches (none
while nobody looks) and the clusters that the panel started. Returns plain values.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpulayer_nb import process
from gpulayer_nb.records import wire
from gpulayer_nb.records.cluster_folder import clusters_root
from gpulayer_nb.records.run_folder import RunFolder, default_root
from gpulayer_nb.records.worker_state import WorkerState
from gpulayer_nb.server.cluster_rows import cluster_rows
from gpulayer_nb.server.cluster_watch import ClusterWatch
from gpulayer_nb.server.discovery import EMBEDDED, OPEN, FoundCluster, find_clusters, ipython_folder
from gpulayer_nb.server.live_run import LiveRun
from gpulayer_nb.server.local_cluster import LocalClusters
from gpulayer_nb.server.rank_output import LINES
from gpulayer_nb.server.refusals import NotNowError, NotThereError
from gpulayer_nb.server.run_rows import OVER, RunList
from gpulayer_nb.server.snapshot import Snapshot

LOOK_SECONDS = 2.0  # between looks at the disk for clusters
REPORT_SECONDS = 12.0  # for "who is stuck"
FIGURE_SECONDS = 60.0
ENGINE_SECONDS = 5.0  # for a supervisor to answer
LOG_BYTES = 1 << 18
_END_SECONDS = 5.0

NotebookOf = Callable[[int], str | None]


class Service:
    """One per server. Any thread.

    Args:
        max_ranks: most ranks of a cluster started here.
        notebook_of: the notebook whose kernel has this pid; None if there is none.
    """

    def __init__(
        self,
        *,
        max_ranks: int = 64,
        notebook_of: NotebookOf = lambda pid: None,
        root: Path | None = None,
        runs_root: Path | None = None,
        profiles: Path | None = None,
    ) -> None:
        self.max_ranks = max_ranks
        self.notebook_of = notebook_of
        self._root, self._profiles = root or clusters_root(), profiles or ipython_folder()
        self._runs = RunList(runs_root or default_root())
        self._local = LocalClusters(self._root)
        self._lock = threading.RLock()
        self._watches: dict[str, ClusterWatch] = {}
        self._looked: float | None = None
        self.on_change: Callable[[], None] = lambda: None  # any thread

    # What is there

    def clusters(self) -> list[FoundCluster]:
        return find_clusters(self._root, self._profiles)

    def look(self) -> Snapshot:
        """The picture of this moment; what there is to watch is watched from now on."""
        with self._lock:
            self._look_for_clusters()
            watches = list(self._watches.values())
            clusters, ranks, live = [], {}, dict[str, LiveRun]()
            for watch in watches:
                row, its_ranks = cluster_rows(watch.observe(self._local.owns(watch.cluster.name)))
                row["notebook"] = next((found for pid, _ in watch.cluster.owners if (found := self.notebook_of(pid))), None)
                clusters.append(row)
                ranks.update(its_ranks)
                live.update((run.run_id, run) for run in watch.live_runs)
            return Snapshot(clusters, ranks, self._runs.rows(live, self.notebook_of))

    def look_away(self) -> None:
        """Nobody looks any more: no thread, no socket, no question."""
        with self._lock:
            watches, self._watches, self._looked = list(self._watches.values()), {}, None
        for watch in watches:
            watch.end()

    def _look_for_clusters(self) -> None:
        now = time.monotonic()
        if self._looked is not None and now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        found = {cluster.name: cluster for cluster in self.clusters()}
        for name in [name for name, watch in self._watches.items() if found.get(name) != watch.cluster or not watch.is_alive()]:
            self._watches.pop(name).end()
        for name, cluster in found.items():
            if name not in self._watches:
                watch = self._watches[name] = ClusterWatch(cluster, self._runs.folder, lambda: self.on_change())
                watch.start()

    def _look_soon(self) -> None:
        self._looked = None
        for watch in list(self._watches.values()):
            watch.look_again()
        self.on_change()

    # Clusters

    def start_cluster(self, nodes: int, devices: int) -> str:
        """A new cluster on this machine; its name, for `--target`.

        Raises:
            ClusterError: it does not come up.
        """
        name = self._local.start(nodes, devices, (cluster.name for cluster in self.clusters()))
        self._look_soon()
        return name

    def stop_cluster(self, name: str) -> None:
        """Ends a cluster of this machine with all that runs on it.

        Raises:
            NotThereError: there is none of that name.
            NotNowError: it was started where only its owner can end it.
        """
        cluster = self._cluster(name)
        if self._local.owns(name):
            self._local.end(name)
        elif cluster.kind == EMBEDDED and cluster.folder is not None:
            _end_supervisor(cluster)
        elif cluster.kind == OPEN:
            _end_owners(cluster)
        else:
            raise NotNowError(f"{name} was started by ipyparallel. Next: stop it there, for example with `ipcluster stop`.")
        self._look_soon()

    def _cluster(self, name: str) -> FoundCluster:
        found = next((cluster for cluster in self.clusters() if cluster.name == name), None)
        if found is None:
            raise NotThereError(f"There is no cluster {name} on this machine.")
        return found

    def _watch(self, name: str) -> ClusterWatch:
        self._cluster(name)
        with self._lock:
            watch = self._watches.get(name)
        if watch is None:
            raise NotNowError(f"The server is not connected to {name} yet. Next: open the panel, then try again.")
        return watch

    def restart_engine(self, name: str, worker: str, slot: int) -> None:
        """Ends one engine and starts another in its place; its variables are gone.

        Raises:
            NotThereError: there is no such engine.
            NotNowError: a run is on there, or its supervisor does not answer.
        """
        watch = self._watch(name)
        seen = watch.observe(False)
        state = next((state for state in seen.workers if state.worker == worker), None)
        if state is None or slot not in {*(e.slot for e in state.engines), *(d.slot for d in state.deaths)}:
            raise NotThereError(f"Cluster {name} has no engine {slot} on worker {worker}.")
        on = next((run for run in seen.runs if run.end is None and not run.is_left), None)
        if on is not None and self._runs.state(self._runs.folder(on.run_id)) not in OVER:
            raise NotNowError(f"Run {on.run_id} is on. Next: stop it, then restart the engine.")
        last = seen.runs[-1].run if seen.runs else None
        nodes, devices = (last.num_nodes, last.devices) if last is not None else (1, max(1, len(state.engines)))
        content = {"slots": [slot], "nodes": nodes, "devices": devices}
        reply = watch.request_worker(worker, wire.START_ENGINES, content, ENGINE_SECONDS)
        if reply is None:
            raise _silent(worker, "stop the cluster")
        if why := reply.get("refused"):
            raise NotNowError(str(why))
        self._look_soon()

    def end_worker(self, name: str, worker: str) -> None:
        """Takes a worker out of a cluster; its engines end, its own process too.

        Raises:
            NotThereError: there is no such worker.
            NotNowError: it does not answer, or it is all there is of its cluster.
        """
        watch = self._watch(name)
        if worker not in {state.worker for state in watch.observe(False).workers}:
            raise NotThereError(f"Cluster {name} has no worker {worker}.")
        reply = watch.request_worker(worker, wire.END_WORKER, {"by": "the panel"}, ENGINE_SECONDS)
        if reply is None:
            raise _silent(worker, "end its process on that machine")
        if why := reply.get("refused"):
            raise NotNowError(f"{why}.")
        self._look_soon()

    def engine_log(self, name: str, worker: str, slot: int) -> list[str]:
        """What an engine printed last, or what its process has left in its log."""
        watch = self._watch(name)
        seen = watch.observe(False)
        number = next((n for n, engine in seen.engines.items() if (engine.worker, engine.slot) == (worker, slot)), None)
        lines = watch.output(number) if number is not None else []
        if not lines and number is not None:
            lines = self._printed_in_run(seen.runs, seen.engines[number].pid)
        folder = watch.cluster.folder
        if lines or folder is None or all(state.worker != worker for state in seen.workers):
            return lines
        return folder.log_tail(f"engine-{slot}.log", 100).splitlines()

    def _printed_in_run(self, runs: Sequence[LiveRun], pid: int) -> list[str]:
        """What a process printed in the run that was heard last, also before anybody looked."""
        last = runs[-1] if runs else None
        if last is None or last.run is None or pid not in last.run.pids:
            return []
        return _text(self._runs.folder(last.run_id).log(last.run.pids.index(pid))).splitlines()[-LINES:]

    # Runs

    def run(self, run_id: str) -> dict[str, Any]:
        """What is known of a run: facts, the cell, the end of its tracebacks."""
        folder = self._runs.find(run_id)
        return {
            "facts": self._runs.facts(folder),
            "state": self._runs.state(folder),
            "cell": _text(folder.path / "cell.py"),
            "tracebacks": _text(folder.path / "tracebacks.txt"),
            "checkpoints": sorted(path.name for path in folder.checkpoints.glob("*"))[:100],
        }

    def run_log(self, run_id: str, rank: int, lines: int) -> list[str]:
        """The last lines that a rank printed in a run.

        Raises:
            NotThereError: no such run, or it had no such rank.
        """
        path = self._runs.find(run_id).log(rank)
        if not path.exists():
            raise NotThereError(f"Run {run_id} has no output of rank {rank}.")
        return _text(path).splitlines()[-lines:]

    def stop_run(self, run_id: str) -> int:
        """Asks whoever drives the run to stop it; again for one stage harder. Returns how often it was asked.

        Raises:
            NotThereError: no such run.
            NotNowError: it is over.
        """
        folder = self._driven(run_id)
        folder.ask_to_stop()
        self.on_change()
        return folder.stops_asked()

    def report(self, run_id: str) -> str:
        """Where every rank of a run is, and who waits for whom; asked of the process that drives it.

        Raises:
            NotThereError: no such run.
            NotNowError: it is over, or its driver does not answer.
        """
        folder = self._driven(run_id)
        folder.report.unlink(missing_ok=True)
        folder.report_request.touch()
        deadline = time.monotonic() + REPORT_SECONDS
        while time.monotonic() < deadline:
            if folder.report.exists():
                return folder.report.read_text()
            time.sleep(0.1)
        raise NotNowError(f"The process that drives run {run_id} did not answer in {REPORT_SECONDS:.0f} s.")

    def _driven(self, run_id: str) -> RunFolder:
        folder = self._runs.find(run_id)
        state = self._runs.state(folder)
        if state in OVER:
            raise NotNowError(f"Run {run_id} is over: {state}.")
        return folder

    def figure(self, run_id: str) -> bytes:
        """The run's curves as a PNG, drawn by a process of its own: matplotlib and the views are none of the server's.

        Raises:
            NotNowError: there is nothing to draw yet.
        """
        folder = self._runs.find(run_id)
        command = [sys.executable, "-m", "gpulayer_nb.ui.run_picture", str(folder.path)]
        try:
            drawn = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=FIGURE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise NotNowError(f"The curves of run {run_id} were not drawn in {FIGURE_SECONDS:.0f} s. Next: try again.") from None
        if drawn.returncode or not drawn.stdout:
            raise NotNowError(f"Run {run_id} has no curves to draw.")
        return drawn.stdout

    def close(self) -> None:
        """Ends the watches and the clusters that were started here; bounded in time."""
        self.look_away()
        self._local.end_all()


def _silent(worker: str, then: str) -> NotNowError:
    return NotNowError(f"Worker {wire.name_of_key(worker)} did not answer in {ENGINE_SECONDS:.0f} s. Next: {then}.")


def _text(path: Path) -> str:
    """The end of a file, "" if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def _end_supervisor(cluster: FoundCluster) -> None:
    """Asks a kernel's own cluster to end: its supervisor leaves nothing behind."""
    folder = cluster.folder
    state = WorkerState.read(folder.state) if folder is not None else None
    if folder is None or state is None or not _names_its_folder(state.pid, folder.path):
        raise NotNowError(f"{cluster.name} is just starting or ending. Next: try again in a moment.")
    _end_processes([(state.pid, process.start_ticks(state.pid))])


def _end_owners(cluster: FoundCluster) -> None:
    """A cluster that `gpulayer controller start` keeps up ends with that command."""
    _end_processes(list(cluster.owners))


def _end_processes(processes: list[tuple[int, int | None]]) -> None:
    for pid, ticks in processes:
        if process.is_running(pid, ticks):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _END_SECONDS
    while any(process.is_running(pid, ticks) for pid, ticks in processes):
        if time.monotonic() > deadline:
            raise NotNowError(
                f"It was asked to end, but has not after {_END_SECONDS:.0f} s. Next: look at its log, or stop it again."
            )
        time.sleep(0.05)


def _names_its_folder(pid: int, path: Path) -> bool:
    """A supervisor has its folder on its command line: the pid is not another process's by now."""
    try:
        return str(path).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
