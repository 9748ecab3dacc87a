"""Gradients on every rank before and after the all-reduce: of one weight, or of one layer."""

from __future__ import annotations

from collections.abc import Sequence

from gpulayer_nb.teach.pictures.look import (
    BOLD,
    LIGHT,
    SMALL,
    THIN,
    TITLE,
    Theme,
    canvas,
    ink_on,
    new_figure,
    rank_color,
    rank_hatch,
)
from gpulayer_nb.teach.pictures.picture import Picture


def averages(before: Sequence[Sequence[float]]) -> list[float]:
    """Entry by entry, the mean over the ranks."""
    return [sum(entries) / len(entries) for entries in zip(*before, strict=True)]


def gradient_bars(
    before: Sequence[Sequence[float]], after: Sequence[Sequence[float]], *, layer: str, theme: Theme = LIGHT
) -> Picture:
    """Draws `before[rank]` and `after[rank]`: the same entries of one layer's gradient, at most about 12."""
    world, entries, average = len(before), len(before[0]), averages(before)
    limit = 1.15 * max(abs(value) for rank in before for value in rank)
    decimals = 0 if limit > 10 else 3
    with canvas(theme):
        figure = new_figure(1.75 + 0.95 * world, theme)
        grid = figure.add_gridspec(world, 2, left=0.11, right=0.985, top=0.815, bottom=0.1, hspace=0.18, wspace=0.08)
        figure.text(0.015, 0.945, f"Gradient of {layer}", fontsize=TITLE, weight="bold", va="center")
        columns = ((before, "before: every rank its own"), (after, "after all-reduce: all the same"))
        for column, (values, heading) in enumerate(columns):
            for rank in range(world):
                axes = figure.add_subplot(grid[rank, column])
                axes.bar(
                    range(entries), values[rank], width=0.78, color=rank_color(rank), hatch=rank_hatch(rank),
                    edgecolor=theme.ink, linewidth=THIN / 2,
                )  # fmt: skip
                axes.axhline(0, color=theme.ink, lw=THIN)
                if column == 0:
                    edges = [i - 0.5 for i in range(entries + 1)]
                    axes.step(edges, average + average[-1:], where="post", color=theme.ink, lw=2.2)
                    axes.set_ylabel(f"rank {rank}", rotation=0, ha="right", va="center", labelpad=8, fontsize=SMALL)
                axes.set(ylim=(-limit, limit), xlim=(-0.5, entries - 0.5), xticks=[], yticks=[])
                axes.spines[["left", "bottom"]].set_visible(False)
                axes.patch.set(facecolor=theme.fill)
                if rank == 0:
                    axes.set_title(heading, fontsize=SMALL + 1, pad=8)
        note = "outlined steps: the average over ranks, what all hold afterwards"
        figure.text(0.11, 0.045, note, fontsize=SMALL, va="center")
    rows = "; ".join(f"rank {r} before {[round(v, decimals) for v in before[r]]}" for r in range(world))
    alt = (
        f"Gradient of {layer} on {world} ranks. {rows}. After the all-reduce every rank holds the average "
        f"{[round(v, decimals) for v in average]}."
    )
    return Picture(figure, f"Gradient of {layer}", alt)


def gradient_of_one_weight(before: Sequence[float], after: Sequence[float], *, theme: Theme = LIGHT) -> Picture:
    """Draws `before[rank]` and `after[rank]`, the gradient of the same weight; all of one sign reads best."""
    world, (average,) = len(before), averages([[value] for value in before])
    reach = 1.02 * max(map(abs, before))
    with canvas(theme):
        figure = new_figure(1.5 + 0.62 * world, theme)
        figure.text(0.015, 0.93, "Gradient of one weight", fontsize=TITLE, weight="bold", va="center")
        columns = ((0.11, before, "before: every rank its own"), (0.58, after, "after: all the average"))
        for left, values, heading in columns:
            axes = figure.add_axes((left, 0.04, 0.40, 0.69))
            for rank, value in enumerate(values):
                axes.barh(rank, abs(value), height=0.72, color=rank_color(rank), hatch=rank_hatch(rank))
                axes.text(
                    0.04 * reach, rank, _number(value), va="center", fontsize=SMALL + 4, weight="bold",
                    color=ink_on(rank_color(rank)),
                )  # fmt: skip
            axes.axvline(abs(average), color=theme.ink, lw=BOLD, zorder=3)
            labels = [f"rank {r}" for r in range(world)] if values is before else []
            axes.set(ylim=(world - 0.45, -0.55), xlim=(0, reach), xticks=[])
            axes.set_yticks(range(world) if labels else [], labels)
            axes.tick_params(length=0)
            axes.spines[["left", "bottom"]].set_visible(False)
            axes.set_title(heading, fontsize=SMALL + 1, pad=9)
    alt = (
        f"Gradient of one weight on {world} ranks. Before: {', '.join(_number(v) for v in before)}. After the all-reduce every "
        f"rank holds the average, {_number(average)}, marked by a line."
    )
    return Picture(figure, "Gradient of one weight", alt)


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "\N{MINUS SIGN}")
