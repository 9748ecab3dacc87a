"""Runs one request from start to end: view up, session at work, weights back, error raised.

Runs in the kernel's main thread. Owns the order only.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from gpulayer_nb.api.current import namespace
from gpulayer_nb.api.detached import note_driver
from gpulayer_nb.api.returning import bring_callbacks, bring_model, bring_values
from gpulayer_nb.api.run import Run
from gpulayer_nb.api.runs import runs
from gpulayer_nb.api.verdict import Verdict, judge
from gpulayer_nb.client.interrupts import Interrupts
from gpulayer_nb.client.run_request import RunRequest
from gpulayer_nb.client.session import Session, SessionOutcome
from gpulayer_nb.errors import RunFailed, RunStopped, UsageError
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import RunEnded
from gpulayer_nb.records.run_folder import RunFolder, default_root, new_run_id

_TEMPORARY = "gpulayer-cell-"
_NOTHING_RAN = "stopped before the ranks were at work; nothing ran."


class View(Protocol):
    """What shows a run while it goes on; `dismiss` takes away what it showed."""

    def show(self) -> None: ...
    def refresh(self) -> None: ...
    def finish(self) -> None: ...
    def dismiss(self) -> None: ...


V = TypeVar("V", bound=View)
Finish = Callable[[V, SessionOutcome | None], None]


def _finish(view: View, outcome: SessionOutcome | None) -> None:
    view.finish()


@dataclass(frozen=True)
class Executed:
    """A run that has ended, and what came with it."""

    run: Run
    outcome: SessionOutcome


def execute(session: Session, request: RunRequest, make_view: Callable[[RunHistory], V], finish: Finish[V] = _finish) -> Executed:
    """Runs the request; raises what the user should see.

    Args:
        finish: leaves the view in its final form.

    Raises:
        GpuLayerError: the run could not start, or failed.
        RunStopped: the user stopped it.
    """
    with Interrupts().taken() as interrupts:
        try:
            ended = _to_the_end(session, request, make_view, finish, interrupts)
        except KeyboardInterrupt:  # while the view was made: its first import takes seconds
            raise RunStopped(_NOTHING_RAN) from None
    if ended.run.error is not None:
        raise ended.run.error from None
    if interrupts.presses:  # too late to stop anything, but "run all cells" stops
        raise RunStopped("the run had finished before it could be stopped; its results are in the notebook.")
    if ended.outcome is None:
        raise RuntimeError("a run without an outcome must have an error")
    return Executed(ended.run, ended.outcome)


@dataclass(frozen=True)
class _Ended:
    run: Run
    outcome: SessionOutcome | None


def _to_the_end(
    session: Session, request: RunRequest, make_view: Callable[[RunHistory], V], finish: Finish[V], interrupts: Interrupts
) -> _Ended:
    """The run from its start to the view's final form; what went wrong is in the run's `error`."""
    run_id, history = new_run_id(), RunHistory()
    folder = begin(run_id, request)
    run = Run(run_id, folder, history)
    session.begin(request)  # what a view imports takes long too
    view = _shown(make_view, history, folder)
    asked = 0

    def say(text: str) -> None:
        history.say(text)
        view.refresh()

    def refresh() -> None:
        nonlocal asked
        while folder.stops_asked() > asked:  # by `run.stop()` on a thread, another notebook, a terminal
            asked += 1
            session.stop()
        folder.answer_report(lambda: str(session.hang_report()))
        view.refresh()

    outcome: SessionOutcome | None = None
    try:
        outcome = session.run(request, run_id, folder, history, say, refresh, interrupts)
        verdict = judge(outcome.group, outcome.ranks, outcome.listener.failures, request.mode)
        _bring_back(session, request, run, outcome, verdict)
    except KeyboardInterrupt:
        verdict = Verdict("stopped", RunStopped(_NOTHING_RAN), refused=outcome is None)
    except OSError as error:
        verdict = Verdict("failed", no_room(error, folder.path), refused=outcome is None)
    except BaseException as error:  # noqa: BLE001  whatever keeps a run from starting or ending is raised below, after the view is closed
        verdict = Verdict("failed", error, refused=outcome is None)
    run.error = verdict.error
    ended = RunEnded(time=time.time(), state=verdict.state, message=str(verdict.error or ""))
    history.apply(ended)
    _write_end(folder, ended, _facts(run, request, history), verdict)
    if verdict.refused:
        view.dismiss()
        folder.remove()
    else:
        if request.mode == "ranks" and (verdict.state == "finished" or _is_temporary(folder)):
            folder.remove()  # its output is in the notebook; a look at the ranks leaves nothing on disk
        if _is_temporary(folder):
            shutil.rmtree(folder.path.parents[1], ignore_errors=True)
        runs.add(run)
        finish(view, outcome)
    return _Ended(run, outcome)


def _shown(make_view: Callable[[RunHistory], V], history: RunHistory, folder: RunFolder) -> V:
    try:
        view = make_view(history)
        view.show()
    except BaseException:  # an interrupt too
        folder.remove()
        raise
    return view


def _write_end(folder: RunFolder, ended: RunEnded, facts: dict[str, Any], verdict: Verdict) -> None:
    """The end of a run on disk; a full disk takes nothing away from the run itself."""
    try:
        folder.append(ended)
        folder.write_facts(facts)
        if isinstance(verdict.error, RunFailed) and verdict.error.tracebacks:
            folder.write_tracebacks(verdict.error.tracebacks)
    except OSError as error:
        warnings.warn(f"The run's end is not in its folder {folder.path}: {error.strerror}.", stacklevel=2)


def begin(run_id: str, request: RunRequest) -> RunFolder:
    """The run's folder with what was asked. A look at the ranks makes do with a temporary one.

    Raises:
        UsageError: it cannot be written; says where else.
    """
    try:
        return _begin_in(request.root, run_id, request)
    except OSError as error:
        if request.mode == "ranks":
            return _begin_in(Path(tempfile.mkdtemp(prefix=_TEMPORARY)), run_id, request)
        raise no_room(error, (request.root or default_root()) / "runs" / run_id) from None


def no_room(error: OSError, folder: Path) -> UsageError:
    """The words for a file that cannot be written before the ranks are at work; `folder` is the run's."""
    place = Path(str(error.filename)) if error.filename else folder
    what = "The run folder" if place.is_relative_to(folder) or folder.is_relative_to(place) else "The file"
    return UsageError(
        f"{what} {folder if what == 'The run folder' else place} cannot be written: {error.strerror or error}. "
        "Nothing was started. Next: make room, or set GPULAYER_HOME to a folder that can be written."
    )


def _is_temporary(folder: RunFolder) -> bool:
    return folder.path.parents[1].name.startswith(_TEMPORARY)


def _begin_in(root: Path | None, run_id: str, request: RunRequest) -> RunFolder:
    folder = RunFolder.create(run_id, root)
    try:
        return _filled(folder, run_id, request)
    except BaseException:
        folder.remove()  # nothing half made is left among the runs
        raise


def _filled(folder: RunFolder, run_id: str, request: RunRequest) -> RunFolder:
    folder.write_cell(request.source)
    folder.write_facts(asked_for(run_id, request))
    if not request.detach:
        note_driver(folder)
    elif request.root is not None:
        _make_findable(folder)
    return folder


def _make_findable(folder: RunFolder) -> None:
    """A detached run in a folder of the user's own is found, and stopped, where all runs of this machine are looked for."""
    link = default_root() / "runs" / folder.path.name
    if link != folder.path:
        with contextlib.suppress(OSError):  # then it is found by its `Run` alone
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(folder.path.resolve(), target_is_directory=True)


def asked_for(run_id: str, request: RunRequest) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "mode": request.mode,
        "state": "starting",
        "num_nodes": request.topology.num_nodes,
        "devices": request.topology.devices,
        "model": model_name(request),
        "begun": time.time(),
    }


def model_name(request: RunRequest) -> str | None:
    """How the notebook calls the run's model; None if it has no name of its own."""
    if request.mode != "fit":
        return request.names.model
    model = request.values.get(request.names.model)
    return next((name for name, value in namespace().items() if value is model and not name.startswith("_")), None)


def _bring_back(session: Session, request: RunRequest, run: Run, outcome: SessionOutcome, verdict: Verdict) -> None:
    if verdict.state == "failed":
        return
    if request.mode in ("ranks", "validate", "test", "predict"):
        run.values = bring_values(outcome) if request.collect else []
    else:
        run.model = bring_model(session, request, outcome)
        bring_callbacks(session, request, outcome)


def _facts(run: Run, request: RunRequest, history: RunHistory) -> dict[str, Any]:
    return {
        **asked_for(run.run_id, request),
        "begun": history.run.time if history.run else None,
        "state": run.state,
        "header": history.header_line(),
        "ended": time.time(),
        "elapsed_seconds": history.elapsed_seconds(),
        "error": str(run.error) if run.error else None,
        "metrics": run.metrics,
    }
