"""One weight on every rank over the steps: apart without all-reduce, together with it."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.ticker import MaxNLocator

from gpulayer_nb.teach.pictures.look import LIGHT, LINE, SMALL, TITLE, Theme, canvas, new_figure, rank_color
from gpulayer_nb.teach.pictures.picture import Picture

DASHES = ("-", (0, (5, 1.5)), (0, (2, 1.2)), (0, (6, 1.5, 1.5, 1.5)))


def largest_gap(paths: Sequence[Sequence[float]]) -> float:
    """The widest distance between two ranks at any step."""
    return float(max(max(values) - min(values) for values in zip(*paths, strict=True)))


def parameter_drift(
    without: Sequence[Sequence[float]], synced: Sequence[Sequence[float]], *, weight: str = "One weight", theme: Theme = LIGHT
) -> Picture:
    """Draws `without[rank][step]` and `synced[rank][step]`, the same weight trained without and with an all-reduce."""
    steps, world = len(without[0]) - 1, len(without)
    values = [value for path in (*without, *synced) for value in path]
    pad = 0.1 * (max(values) - min(values))
    limits = (min(values) - pad, max(values) + pad)
    title = f"{weight} on {world} ranks, step by step"
    with canvas(theme):
        figure = new_figure(4.7, theme)
        figure.text(0.015, 0.94, title, fontsize=TITLE, weight="bold", va="center")
        left = figure.add_axes((0.1, 0.165, 0.36, 0.565))
        right = figure.add_axes((0.6, 0.165, 0.36, 0.565))
        for axes, paths, heading in ((left, without, "no all-reduce"), (right, synced, "with all-reduce")):
            for rank, path in enumerate(paths):
                wide = 3.2 * (world - rank) - 0.6 if paths is synced else LINE  # coinciding lines show as stripes
                dashes = DASHES[rank % len(DASHES)] if paths is without else "-"
                axes.plot(path, color=rank_color(rank), lw=wide, linestyle=dashes, solid_capstyle="butt")
            axes.set(xlim=(0, steps), ylim=limits, xlabel="step", xticks=sorted({0, steps // 2, steps}))
            axes.set_title(f"{heading}\nlargest gap: {largest_gap(paths):.2g}", fontsize=SMALL + 1, linespacing=1.35)
            axes.yaxis.set_major_locator(MaxNLocator(3))
        right.set_yticklabels([])
        at = limits[0]
        for value, rank in sorted((path[-1], rank) for rank, path in enumerate(without)):
            at = max(value, at + 0.09 * (limits[1] - limits[0]))
            left.text(steps * 1.03, at, f"rank {rank}", fontsize=SMALL, va="center")
        right.text(steps * 0.98, limits[0] + pad / 2, f"all {world} ranks,\none line", fontsize=SMALL, ha="right", va="bottom")
    alt = (
        f"Two line plots of {weight[0].lower()}{weight[1:]} over {steps} steps on {world} ranks. Without all-reduce they end "
        f"at {', '.join(f'{path[-1]:.3f}' for path in without)} and the largest gap is {largest_gap(without):.3g}. With "
        f"all-reduce all ranks end at {synced[0][-1]:.3f} and the largest gap is {largest_gap(synced):.3g}."
    )
    return Picture(figure, title, alt)
