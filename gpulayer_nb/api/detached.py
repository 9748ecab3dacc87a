"""A run that goes on without the notebook: `python -m gpulayer_nb.api.detached FOLDER` drives it.

`launch` runs in the kernel, `main` in the run's own process, which holds the cluster's lease: when the run is over and nobody
else holds it, the ranks end. Owns the hand-over; the driving is the client's.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from gpulayer_nb import process
from gpulayer_nb.api.verdict import judge
from gpulayer_nb.client.conduct import Conduct
from gpulayer_nb.client.run_keeper import RunKeeper
from gpulayer_nb.client.session import DetachedRun
from gpulayer_nb.errors import ClusterError, RunFailed
from gpulayer_nb.link.connection import Connection
from gpulayer_nb.link.tap import Tap
from gpulayer_nb.records.connection_file import read_if_whole
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import RunEnded
from gpulayer_nb.records.run_folder import RunFolder

_START_SECONDS = 30.0
_PAYLOAD = "detached.bin"
_DRIVER = "driver.json"


def launch(folder: RunFolder, run: DetachedRun) -> None:
    """Starts the run's own process; returns once it holds the lease and drives.

    Raises:
        ClusterError: it did not start; with the end of its log.
    """
    payload = folder.path / _PAYLOAD
    with open(os.open(payload, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        pickle.dump(run, file)
    log = folder.path / "driver.log"
    with log.open("ab") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "gpulayer_nb.api.detached", str(folder.path)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=run.cluster.inherits, start_new_session=True,
        )  # fmt: skip
    threading.Thread(target=child.wait, name="gpulayer-reap", daemon=True).start()
    try:
        _wait_until_it_drives(folder, child, log)
    except BaseException:
        child.kill()  # an interrupt too leaves nothing half started
        raise


def _wait_until_it_drives(folder: RunFolder, child: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while driver_of(folder) is None:
        if child.poll() is not None or time.monotonic() > deadline:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-12:])
            raise ClusterError(f"The detached run's own process did not start. Last lines of {log}:\n{tail or '(empty)'}")
        time.sleep(0.02)


def driver_of(folder: RunFolder) -> tuple[int, int | None] | None:
    """Pid and start ticks of the process that drives a run; None before it is there."""
    data = read_if_whole(folder.path / _DRIVER)
    return None if data is None else (data["pid"], data["ticks"])


def note_driver(folder: RunFolder) -> None:
    """This process drives the run."""
    me = {"pid": os.getpid(), "ticks": process.start_ticks(os.getpid())}
    (folder.path / _DRIVER).write_text(json.dumps(me))


def main(path: str) -> None:
    folder = RunFolder(Path(path))
    payload = folder.path / _PAYLOAD
    run: DetachedRun = pickle.loads(payload.read_bytes())
    payload.unlink()
    run_id = run.specs[0].run_id
    history = RunHistory()
    connection = Connection(run.cluster.client_file)
    asked = 0

    def look_for_stops() -> None:
        nonlocal asked
        while folder.stops_asked() > asked:
            asked += 1
            conduct.driver.request_stop()
        folder.answer_report(lambda: str(conduct.driver.hang_report()))

    conduct = Conduct(
        connection, run.cluster.take(connection), run.group, run_id, history,
        can_ask=run.mode != "ranks", refresh=look_for_stops, timeout_seconds=run.timeout_seconds,
        keeper=RunKeeper.for_specs(folder, run.specs),
    )  # fmt: skip
    info = read_if_whole(run.cluster.client_file)
    if info is None:
        raise ClusterError(f"The controller's connection file is gone: {run.cluster.client_file}.")
    tap = Tap(info, conduct.listener.hear)
    tap.start()
    note_driver(folder)
    outcome = conduct.run(run.specs)
    verdict = judge(run.group, outcome, conduct.listener.failures, run.mode)
    if 0 in outcome.results and verdict.state != "failed":
        folder.result.write_bytes(pickle.dumps(replace(outcome.results[0])))
    if isinstance(verdict.error, RunFailed):
        folder.write_tracebacks(verdict.error.tracebacks)
    folder.write_facts({**folder.read_facts(), "state": verdict.state, "ended": time.time(), "error": str(verdict.error or "")})
    folder.append(RunEnded(time=time.time(), state=verdict.state, message=str(verdict.error or "")))
    tap.end()
    run.cluster.leave()
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
