"""`%%gpulayer --detach` and `%gpulayer attach`: a run that goes on without the notebook, and coming back to it.

Runs in the kernel's main thread. Owns the order only.
"""

from __future__ import annotations

from gpulayer_nb.api import attach as watching
from gpulayer_nb.api.current import session
from gpulayer_nb.api.detached import launch
from gpulayer_nb.api.execute import begin
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
    except BaseException:
        folder.remove()
        raise
    finally:
        view.dismiss()
    run = watching.Watch(folder).run
    runs.add(run)
    return run


def attach(name: str | None, folder: RunFolder | None = None) -> Run:
    """Shows a run from its beginning and on until it is over. An interrupt ends the watching, not the run.

    Raises:
        GpuLayerError: there is no such run, or it failed.
    """
    from gpulayer_nb.ui.choose import choose_view

    watch = watching.Watch(folder or watching.find(name))
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
        raise GpuLayerError(watch.history.message)
    watch.bring_model(session())
    return watch.run
