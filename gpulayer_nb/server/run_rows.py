"""The runs of this machine as the panel lists them.

Runs in the Jupyter server. Owns the reading of run folders; a folder that has not changed is read once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpulayer_nb.process import is_running
from gpulayer_nb.records.connection_file import read_if_whole
from gpulayer_nb.records.run_folder import RunFolder
from gpulayer_nb.server.live_run import LiveRun
from gpulayer_nb.server.refusals import NotThereError

RUN_ID = r"[0-9]{8}-[0-9]{6}-[0-9a-f]{4}"
LISTED = 20
OVER = ("finished", "stopped", "failed")
Row = dict[str, Any]


class RunList:
    """The newest runs under one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._facts: dict[Path, tuple[float, Row]] = {}
        self._followed: dict[str, LiveRun] = {}

    def folder(self, run_id: str) -> RunFolder:
        return RunFolder(self.root / "runs" / run_id)

    def find(self, run_id: str) -> RunFolder:
        """The folder of a run that exists.

        Raises:
            NotThereError: there is none of that id.
        """
        folder = self.folder(run_id)
        if not re.fullmatch(RUN_ID, run_id) or not folder.facts.exists():
            raise NotThereError(f"There is no run {run_id} on this machine.")
        return folder

    def newest(self) -> list[RunFolder]:
        """Newest first."""
        try:
            names = sorted(
                (path.name for path in (self.root / "runs").iterdir() if re.fullmatch(RUN_ID, path.name)), reverse=True
            )
        except OSError:
            return []
        return [folder for name in names[:LISTED] if (folder := self.folder(name)).facts.exists()]

    def facts(self, folder: RunFolder) -> Row:
        """run.json, read again only if it was written again."""
        try:
            written = folder.facts.stat().st_mtime
        except FileNotFoundError:
            return {}
        known = self._facts.get(folder.path)
        if known is None or known[0] != written:
            known = self._facts[folder.path] = (written, read_if_whole(folder.facts) or {})
        return known[1]

    def state(self, folder: RunFolder) -> str:
        """The run's state; "failed" too for one whose driving process is gone without a word."""
        said = str(self.facts(folder).get("state", "starting"))
        return said if said in OVER or is_driven(folder) else "failed"

    def rows(self, live: Mapping[str, LiveRun], notebook_of: Callable[[int], str | None]) -> list[Row]:
        """Newest first. `live` has the runs that a tap hears."""
        listed = []
        folders = self.newest()
        for folder in folders:
            run_id, state = folder.path.name, self.state(folder)
            run = live.get(run_id) or (self._followed_run(folder) if state not in OVER else None)
            driver = driver_of(folder)
            notebook = notebook_of(driver[0]) if driver and is_running(*driver) else None
            listed.append(run_row(folder, self.facts(folder), state, run, notebook))
        names = {folder.path.name for folder in folders}
        self._followed = {run_id: run for run_id, run in self._followed.items() if run_id in names}
        return listed

    def _followed_run(self, folder: RunFolder) -> LiveRun:
        """A run that no tap hears is read from its folder."""
        run = self._followed.setdefault(folder.path.name, LiveRun(folder.path.name))
        run.read_folder(folder)
        return run


def run_row(folder: RunFolder, facts: Row, state: str, run: LiveRun | None, notebook: str | None) -> Row:
    """One run in plain values; `progress` from 0 to 1, times in seconds."""
    over = state in OVER
    if not over and run is not None:
        state = "stopping" if folder.stops_asked() else run.state if run.state in ("starting", "running") else "running"
    begun = facts.get("begun") or (run.run.time if run is not None and run.run is not None else None)
    elapsed = facts.get("elapsed_seconds") or (facts["ended"] - begun if begun and facts.get("ended") else None)
    return {
        "id": folder.path.name,
        "state": state,
        "mode": facts.get("mode", ""),
        "nodes": facts.get("num_nodes"),
        "devices": facts.get("devices"),
        "begun": begun,
        "elapsed": None if elapsed is None else round(elapsed, 1),
        "error": _first_line(facts.get("error")) if over else (run.cause.error_type if run is not None and run.cause else ""),
        "metrics": _short(facts.get("metrics") or {}) if over else _short(run.values if run is not None else {}),
        "notebook": notebook,
        "stops": folder.stops_asked(),
        **(_live(run) if run is not None and not over else _at_rest(run)),
    }


def _live(run: LiveRun) -> Row:
    progress, end = run.progress, run.end_step
    eta = run.eta_seconds
    return {
        "step": run.last_step or None,
        "end_step": end,
        "epoch": None if progress is None else progress.epoch,
        "epochs": run.fit.max_epochs if run.fit else None,
        "phase": "" if progress is None else progress.phase,
        "rate": None if run.samples_per_second is None else float(f"{run.samples_per_second:.3g}"),
        "eta": None if eta is None else round(eta),
        "metric": run.metric,
        "curve": [float(f"{value:.3g}") for value in run.curve()],
    }


def _at_rest(run: LiveRun | None) -> Row:
    return {
        "step": run.last_step or None if run is not None else None, "end_step": None, "epoch": None, "epochs": None, "phase": "",
        "rate": None, "eta": None, "metric": run.metric if run is not None else None, "curve": [],
    }  # fmt: skip


def driver_of(folder: RunFolder) -> tuple[int, int | None] | None:
    """Pid and start ticks of the process that drives a run."""
    data = read_if_whole(folder.path / "driver.json")
    return None if data is None else (data["pid"], data["ticks"])


def is_driven(folder: RunFolder) -> bool:
    driver = driver_of(folder)
    if driver is None:  # it writes its name right after it has made the folder
        return time.time() - folder.facts.stat().st_mtime < 5.0
    return is_running(*driver)


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0][:300]


def _short(metrics: Mapping[str, float]) -> dict[str, float | str]:
    """JSON has no NaN: such values are words."""
    return {name: value if isinstance(value, str) else _number(value) for name, value in list(metrics.items())[:12]}


def _number(value: float) -> float | str:
    short = float(f"{value:.4g}")
    return short if short == short and abs(short) != float("inf") else str(short)
