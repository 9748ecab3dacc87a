"""Several runs in one drawing: a panel per metric, a colour per run.

Runs in the kernel, in any thread: it never touches pyplot. Owns the look of the drawing. Must not know where runs come from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gpulayer_nb.records.curve import Curve, TrailingMean
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.ui.chart_axes import DPI
from gpulayer_nb.ui.figure import WIDTH
from gpulayer_nb.ui.palette import LIGHT, Palette
from gpulayer_nb.ui.panel import family
from gpulayer_nb.ui.run_figure import RunFigure
from gpulayer_nb.ui.typeface import PX, SMALL, TEXT, faces

AXES = {"step": "step", "epoch": "epoch", "time": "minutes"}  # what `by` may be, and what stands below the axis
_HEIGHT = 260  # CSS pixels of one row of panels
_LEGEND = 24  # CSS pixels of one line of the legend

Named = Sequence[tuple[str, RunHistory]]


def families(runs: Named) -> list[str]:
    """Every metric of any run, in order of appearance."""
    found: dict[str, None] = {}
    for _, history in runs:
        means = (name for row in history.epochs() if row.split in ("train", "val") for name in row.values)
        names = [*history.metric_names, *means]
        found.update(dict.fromkeys(family(name) for name in names))
    return list(found)


def make_comparison(runs: Named, wanted: Sequence[str], *, by: str = "step", palette: Palette = LIGHT) -> Figure:
    """One panel per metric of `wanted`: the trailing mean of the training solid, the validation dashed.

    Args:
        by: a key of `AXES`.
    """
    columns = 1 if len(wanted) == 1 else 2
    rows = math.ceil(len(wanted) / columns)
    lines = math.ceil(len(runs) / 4)
    height = rows * _HEIGHT + lines * _LEGEND
    figure = RunFigure(figsize=(WIDTH / DPI, height / DPI), dpi=DPI, facecolor=palette.ground, layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - lines * _LEGEND / height))  # type: ignore[union-attr,call-arg]  # the constrained one
    panels = [figure.add_subplot(rows, columns, at + 1) for at in range(len(wanted))]
    for axes, name in zip(panels, wanted, strict=True):
        _dress(axes, name, AXES[by], palette)
        for hue, (_, history) in enumerate(runs):
            _draw(axes, history, name, by, palette, palette.hue(hue))
    handles = [panels[0].plot([], [], color=palette.hue(hue), label=label)[0] for hue, (label, _) in enumerate(runs)]
    figure.legend(
        handles=handles, loc="upper left", ncols=4, frameon=False, labelcolor=palette.text, prop={"family": faces(), "size": TEXT}
    )
    return figure


def _draw(axes: Axes, history: RunHistory, base: str, by: str, palette: Palette, hue: str) -> None:
    name = next((n for n in history.metric_names if family(n) == base), None)
    if name is not None:
        steps, values = history.column(name)
        mean = Curve()
        mean.extend(steps, TrailingMean().extend(values))
        shown, smooth = mean.points()
        axes.plot(_places(history, shown, by), smooth, color=hue, linewidth=1.75 * PX)
    for split, style in (("train", "-"), ("val", "--")):
        if split == "train" and name is not None:
            continue
        means = [
            (row.global_step, value)
            for row in history.epochs() if row.split == split
            for n, value in row.values.items() if family(n) == base
        ]  # fmt: skip
        at = _places(history, [step for step, _ in means], by)
        axes.plot(at, [value for _, value in means], style, color=hue, linewidth=1.75 * PX, marker="o", markersize=5 * PX,
                  markerfacecolor=palette.ground if split == "val" else hue, markevery=max(1, len(means) // 40))  # fmt: skip


def _places(history: RunHistory, steps: Sequence[int], by: str) -> npt.NDArray[np.float64]:
    """Where the steps stand on the axis: steps, epochs done, or minutes since the first record."""
    at = np.asarray(steps, "f8")
    if by == "step" or not len(at):
        return at
    if by == "epoch":
        known = sorted((step, epoch + 1.0) for epoch, step in history.epoch_ends.items())
        first = (known[0][0] - (history.steps_per_epoch or known[0][0]), known[0][1] - 1.0) if known else (0, 0.0)
        known = [first, *known]
        if history.steps_per_epoch and known[-1][0] < history.last_step:  # an epoch that was not ended
            known.append((known[-1][0] + history.steps_per_epoch, known[-1][1] + 1.0))
    else:
        known = [(step, seconds / 60) for step, seconds in history.step_times()]
    if not known:
        return at
    places: npt.NDArray[np.float64] = np.interp(at, [step for step, _ in known], [place for _, place in known])
    return places


def _dress(axes: Axes, name: str, below: str, palette: Palette) -> None:
    axes.set_facecolor("none")
    axes.set_title(name, loc="left", fontsize=TEXT, fontweight="bold", color=palette.text, family=faces())
    axes.set_xlabel(below, fontsize=SMALL, color=palette.muted, family=faces())
    axes.tick_params(length=0, labelsize=SMALL, labelcolor=palette.muted, labelfontfamily=faces())
    axes.grid(axis="y", color=palette.grid, linewidth=PX)
    for side in axes.spines.values():
        side.set_visible(False)
