"""A run as the user holds it: `glt.runs[-1]`, `run = trainer.fit(...)`.

Lives in the kernel. Owns nothing that is not in its history or folder. Must not know how it was started.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulayer_nb.api.checkpoint import Checkpoint
from gpulayer_nb.api.far_checkpoints import far_folder
from gpulayer_nb.errors import ClusterError
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Run:
    """One run, while it goes on and after.

    Attributes:
        run_id: names the run and its folder.
        folder: where its records, logs and checkpoints are.
        model: the notebook's model with the weights this run left in it; None before the end or for a run without a model.
        values: of a `%%ranks` run, the last expression's value of each rank, in rank order.
        error: the exception the run ended with, or None.
        exit_codes: of a launch, how each rank's process ended (negative: a signal's number; None: not known).
    """

    def __init__(self, run_id: str, folder: RunFolder, history: RunHistory, follow: Callable[[], None] | None = None) -> None:
        self._follow = follow or (lambda: None)  # reads what another process has written since
        self.run_id = run_id
        self.folder: Path = folder.path
        self.model: Any = None
        self.values: list[Any] = []
        self.error: BaseException | None = None
        self.is_elsewhere = follow is not None  # another process drives it
        self.waiting_model: Any = None  # of a detached run, the object that gets the weights on attach
        self.exit_codes: dict[int, int | None] = {}
        self._files, self._past = folder, history

    @property
    def _history(self) -> RunHistory:
        self._follow()
        return self._past

    def wait(self, timeout_seconds: float | None = None) -> str:
        """Waits until the run is over, or for so long; returns its state."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not self._history.is_over and (deadline is None or time.monotonic() < deadline):
            time.sleep(0.1)
        return self.state

    def stop(self) -> None:
        """Asks the run to stop after the step in hand; again goes one stage further. The run may be anyone's on this machine."""
        self._files.ask_to_stop()

    def attach(self) -> None:
        """Shows the run from its beginning and on until it is over; its weights then come into the notebook."""
        from gpulayer_nb.api.attaching import attach

        attach(self.run_id, self._files)

    @property
    def state(self) -> str:
        """One of starting, running, stopping, finished, stopped, failed."""
        return self._history.state

    @property
    def history(self) -> Any:
        """One row per step and per epoch mean, in rank 0's order: a DataFrame where there is pandas, else a list of dicts."""
        rows = self._history.rows()
        try:
            import pandas
        except ImportError:
            return rows
        return pandas.DataFrame(rows)

    @property
    def metrics(self) -> dict[str, float]:
        """The last epoch means over all samples of all ranks, of training and validation."""
        return self._history.metrics

    @property
    def logs(self) -> Sequence[str]:
        """What each rank wrote, in rank order."""
        ranks = range(self._history.world_size)
        if self._files.logs.is_dir():
            return [path.read_text(errors="replace") if (path := self._files.log(rank)).exists() else "" for rank in ranks]
        return ["".join(f"{line.text}\n" for line in self._history.output.lines(rank)) for rank in ranks]

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """Checkpoints in the order in which they were saved; one that was replaced later is not there any more.

        They are paths on the machine of rank 0; `run.checkpoints[-1].fetch()` brings one here if that is another one.
        """
        paths = list(dict.fromkeys(Path(saved.path) for saved in self._history.checkpoints))
        far = far_folder(self._files)
        if far is None:
            return [Checkpoint.at(path, None, self._files.checkpoints) for path in paths if path.exists()]
        with contextlib.suppress(ClusterError):  # then all are listed, and `fetch` says why it cannot
            paths = far.existing(paths)
        return [Checkpoint.at(path, far, self._files.checkpoints) for path in paths]

    def plot(self) -> Figure:
        """A matplotlib figure of every averaged metric over the steps."""
        from gpulayer_nb.ui.figure import make_figure

        return make_figure(self._history)

    def __repr__(self) -> str:
        shape = self._history.header_line().split(" · ")[0]
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        return f"<Run {self.run_id}: {self.state}{', ' + shape if shape else ''}{', ' + metrics if metrics else ''}>"

    def _repr_html_(self) -> str:
        from gpulayer_nb.ui.still import static_bundle

        data, _ = static_bundle(self._history)
        return str(data["text/html"])
