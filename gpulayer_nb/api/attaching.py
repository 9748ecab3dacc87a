"""`%%gpulayer --detach` and `%gpulayer attach`: a run that goes on without the notebook, and coming back to it.

Runs in the kernel's main thread. Owns the order only.
"""

from __future__ import annotations

from gpulayer_nb.api import attach as watching
from gpulayer_nb.api.current import session
from gpulayer_nb.api.detached import launch
from gpulayer_nb.api.execute import begin, no_room
from gpulayer_nb.api.run import Run
from gpulayer_nb.api.runs import runs
from gpulayer_nb.client.run_request import RunRequest
from gpulayer_nb.errors import GpuLayerError, RunStopped
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.run_folder import RunFolder, new_run_id


def detach(request: RunRequest) -> Run:
    """Starts a run and returns at once; the run has its ranks to itself from then on."""
    from gpulayer_nb.ui.choose import choose_view

    run_id, starting = new_run_id(), RunHistory()
    folder = begin(run_id, request)
    view = choose_view(starting)
    view.show()

    def say(text: str) -> None:
        starting.say(text)
        view.refresh()

    try:
        session().detach(request, run_id, folder, starting, say, lambda run: launch(folder, run))
    except BaseException as error:
        folder.remove()
        if isinstance(error, OSError):
            raise no_room(error, folder.path) from None
        raise
    finally:
        view.dismiss()
    run = watching.Watch(folder).run
    if request.mode == "fit":
        run.waiting_model = request.values[request.names.model]
    runs.add(run)
    return run


def still_on() -> list[Run]:
    """Runs that this kernel has detached and that are not over."""
    return [run for run in runs if run.is_elsewhere and run.state not in watching.OVER]


def attach(name: str | None, folder: RunFolder | None = None) -> Run:
    """Shows a run from its beginning and on until it is over; its weights then come into the notebook.

    An interrupt ends the watching, not the run.

    Raises:
        GpuLayerError: there is no such run, or it failed.
    """
    from gpulayer_nb.ui.choose import choose_view

    watch = watching.Watch(folder or watching.find(name))
    run = runs.find(watch.run.run_id) or watch.run
    runs.add(run)
    watch.read()
    view = choose_view(watch.history, stops=False)  # an interrupt here ends the watching only
    view.show()
    try:
        watch.wait(view.refresh)
    except KeyboardInterrupt:
        raise RunStopped(
            f"no longer watching run {watch.run.run_id}, which goes on. Next: `%gpulayer attach {watch.run.run_id}`."
        ) from None
    finally:
        view.finish()
    if watch.history.state == "failed":
        run.error = GpuLayerError(watch.history.message)
        raise run.error
    watch.bring_model(session(), run)
    return run
