"""`glt.compare(run_a, run_b)`: the same metrics of several runs in one figure.

Lives in the kernel. Owns what may be asked and the names of the runs in the legend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpulayer_nb.api.run import Run
from gpulayer_nb.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def compare(*runs: Run, metrics: Sequence[str] | None = None, by: str = "step", labels: Sequence[str] | None = None) -> Figure:
    """A matplotlib figure with one panel per metric and one colour per run; training solid, validation dashed.

    Args:
        metrics: which metrics, without `train_` or `val_` in front; default: every metric of any run.
        by: what the horizontal axis counts: "step", "epoch" or "time".
        labels: names for the legend, one per run; default: the ends of the runs' ids.

    Raises:
        UsageError: there is nothing to compare, or a name is not known.
    """
    from gpulayer_nb.ui.comparison import AXES, families, make_comparison

    if not runs:
        raise UsageError("glt.compare needs at least one run. Next: `glt.compare(*glt.runs[-2:])`")
    if by not in AXES:
        raise UsageError(f"by={by!r} is not an axis of glt.compare; there are {', '.join(map(repr, AXES))}.")
    if labels is not None and len(labels) != len(runs):
        raise UsageError(f"{len(labels)} labels for {len(runs)} runs. Next: one label per run")
    names = labels or [run.run_id.rsplit("-", 1)[-1] for run in runs]
    named = [(name, run._history) for name, run in zip(names, runs, strict=True)]
    known = families(named)
    if not known:
        raise UsageError("None of these runs has a metric yet, so there is nothing to draw.")
    unknown = [name for name in metrics or () if name not in known]
    if unknown:
        raise UsageError(f"No run has a metric {', '.join(map(repr, unknown))}; there are {', '.join(map(repr, known))}.")
    return make_comparison(named, metrics or known, by=by)
