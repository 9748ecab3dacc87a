"""Watching, stopping and finding runs that another process drives.

Runs in any kernel or terminal of this user. Owns the search among run folders; what is shown comes from the folder alone, so
nothing is missing however late one comes.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from pathlib import Path

from gpulayer_nb import process
from gpulayer_nb.api.detached import driver_of
from gpulayer_nb.api.returning import load_in_place, put_in_notebook
from gpulayer_nb.api.run import Run
from gpulayer_nb.client.session import Session
from gpulayer_nb.errors import UsageError
from gpulayer_nb.records.fit_names import FitNames
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import RunEnded
from gpulayer_nb.records.run_folder import RunFolder, default_root
from gpulayer_nb.records.run_follower import RunFollower
from gpulayer_nb.records.run_spec import RankResult

_TICK_SECONDS = 0.1
_REPORT_SECONDS = 10.0
OVER = ("finished", "stopped", "failed")


def folders(root: Path | None = None) -> list[RunFolder]:
    """Runs on this machine, oldest first."""
    runs = (root or default_root()) / "runs"
    found = [RunFolder(path) for path in runs.iterdir() if (path / "run.json").exists()] if runs.is_dir() else []
    return sorted(found, key=lambda folder: folder.path.name)


def find(name: str | None, root: Path | None = None) -> RunFolder:
    """The run of that id, or whose id ends so; without a name the newest.

    Raises:
        UsageError: there is none, or several.
    """
    known = folders(root)
    matching = [folder for folder in known if name is None or folder.path.name.endswith(name)]
    if not matching:
        what = f"no run {name}" if name else "no run yet"
        newest = ", ".join(folder.path.name for folder in known[-3:])
        raise UsageError(f"There is {what} on this machine.{f' The newest are {newest}.' if newest else ''}")
    if name is not None and len(matching) > 1 and matching[-1].path.name != name:
        raise UsageError(f"{name} names {len(matching)} runs: {', '.join(folder.path.name for folder in matching[-4:])}.")
    return matching[-1]


def state_of(folder: RunFolder) -> str:
    """The run's state; "failed" too for a run whose driver has gone without a word."""
    state = str(folder.read_facts().get("state", "starting"))
    return state if state in OVER or _is_driven(folder) else "failed"


def _is_driven(folder: RunFolder) -> bool:
    driver = driver_of(folder)
    return driver is not None and process.is_running(*driver)


def stop(folder: RunFolder) -> str:
    """Asks a run to stop; again for one stage harder. Returns what to tell the user."""
    if state_of(folder) in OVER:
        return f"Run {folder.path.name} is over: {state_of(folder)}."
    folder.ask_to_stop()
    return f"Asked run {folder.path.name} to stop after the step in hand. Again goes one stage further."


def where(folder: RunFolder) -> str:
    """Where every rank of a run is, and who waits for whom; asked of the process that drives it.

    Raises:
        UsageError: the run is over, or its driver does not answer.
    """
    if state_of(folder) in OVER:
        raise UsageError(f"Run {folder.path.name} is over: {state_of(folder)}.")
    folder.report.unlink(missing_ok=True)
    folder.report_request.touch()
    deadline = time.monotonic() + _REPORT_SECONDS
    while time.monotonic() < deadline:
        if folder.report.exists():
            return folder.report.read_text()
        time.sleep(_TICK_SECONDS)
    raise UsageError(f"The process that drives run {folder.path.name} did not answer in {_REPORT_SECONDS:.0f} s.")


class Watch:
    """A run of another process, as one sees it here."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.history = RunHistory()
        self._follower = RunFollower(folder, self.history)
        self.run = Run(folder.path.name, folder, self.history, follow=self.read)

    def read(self) -> None:
        """Brings the history up to date."""
        if self.history.is_over:
            return
        driven = _is_driven(self.folder)  # before reading: its last words are on disk by now if it is gone
        self._follower.read()
        if not self.history.is_over and not driven:
            self.history.apply(
                RunEnded(
                    time=time.time(), state="failed", message="The process that drove this run is gone, and the ranks with it."
                )
            )

    def wait(self, refresh: Callable[[], None], limit_seconds: float | None = None) -> bool:
        """Reads on until the run is over; False if the limit came first."""
        deadline = None if limit_seconds is None else time.monotonic() + limit_seconds
        while not self.history.is_over:
            self.read()
            refresh()
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(_TICK_SECONDS)
        refresh()
        return True

    def bring_model(self, session: Session, run: Run) -> None:
        """The trained weights into the notebook's model, or the model itself under its name, if the run left one.

        Raises:
            UsageError: the notebook has no such model; says where the weights are.
        """
        if not self.folder.result.exists():
            return
        result: RankResult = pickle.loads(self.folder.result.read_bytes())
        if result.model is None:
            return
        returned = session.load(result.model)
        name = self.folder.read_facts().get("model", FitNames().model)
        if run.waiting_model is not None:  # the very object that this kernel gave to `Trainer.fit`
            load_in_place(run.waiting_model, returned, name or "model")
            run.model = run.waiting_model
        elif name is None:
            raise UsageError(
                f"The model of run {run.run_id} had no name in its notebook. Its weights are in "
                f"{run.checkpoints[-1] if run.checkpoints else self.folder.path}. Next: load them with `torch.load`."
            )
        else:
            run.model = put_in_notebook(session, name, returned, in_place=result.model_in_place)


def table(root: Path | None = None, last: int = 20) -> str:
    """The newest runs, one a line."""
    lines = []
    for folder in folders(root)[-last:]:
        facts = folder.read_facts()
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in (facts.get("metrics") or {}).items())
        lines.append(
            f"{folder.path.name}  {state_of(folder):<9}{facts.get('num_nodes')} × {facts.get('devices')}  {metrics}".rstrip()
        )
    return "\n".join(lines) or "no runs yet"
