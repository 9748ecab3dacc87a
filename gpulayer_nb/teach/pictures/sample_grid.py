"""Who holds which sample: one row an epoch, one column a sample, coloured by rank, samples used twice split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.patches import Rectangle

from gpulayer_nb.errors import UsageError
from gpulayer_nb.teach.pictures.look import LIGHT, SMALL, TITLE, Theme, canvas, ink_on, new_figure, rank_color, rank_hatch
from gpulayer_nb.teach.pictures.picture import Picture

MOST_SAMPLES = 12  # of 14-point numbers side by side
DASHED = (0, (2, 1))


def holders(shards: Sequence[Sequence[int]], sample: int) -> list[int]:
    """The ranks that hold the sample, once for each time."""
    return [rank for rank, shard in enumerate(shards) for index in shard if index == sample]


def sample_grid(rows: Mapping[str, Sequence[Sequence[int]]], *, theme: Theme = LIGHT) -> Picture:
    """Draws one row for each entry of `rows`: label → shards, where `shards[rank]` lists that rank's samples in order.

    Raises:
        UsageError: more samples than can be told apart on a screen.
    """
    samples = 1 + max((index for shards in rows.values() for shard in shards for index in shard), default=-1)
    if not 0 < samples <= MOST_SAMPLES:
        raise UsageError(f"The grid shows 1 to {MOST_SAMPLES} samples, got {samples}. Next: take a smaller example.")
    world = len(next(iter(rows.values())))
    with canvas(theme):
        row_height, top = 0.72, 1.2
        height = top + row_height * len(rows) + 0.95
        figure = new_figure(height, theme)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set(xlim=(0, 8), ylim=(height, 0))
        axes.axis("off")
        left, cell = 2.0, (8 - 2.0 - 0.15) / samples
        title = f"{samples} samples, {world} ranks: who trains on which sample?"
        axes.text(0.15, 0.38, title, fontsize=TITLE, weight="bold", va="center")
        axes.text(left - 0.15, 0.93, "sample", fontsize=SMALL, ha="right", va="center", color=theme.muted)
        for i in range(samples):
            axes.text(left + (i + 0.5) * cell, 0.93, str(i), fontsize=SMALL, ha="center", va="center", color=theme.muted)
        for row, (label, shards) in enumerate(rows.items()):
            y = top + row * row_height
            middle = y + row_height / 2 - 0.05
            axes.text(left - 0.15, middle, label, fontsize=SMALL, ha="right", va="center")
            for i in range(samples):
                ranks = holders(shards, i)
                for part, rank in enumerate(ranks):
                    x, width = left + i * cell + part * cell / len(ranks), cell / len(ranks)
                    axes.add_patch(
                        Rectangle(
                            (x, y), width, row_height - 0.1, facecolor=rank_color(rank), hatch=rank_hatch(rank),
                            edgecolor=theme.face, linewidth=2.5 if len(ranks) == 1 else 1.0,
                        )
                    )  # fmt: skip
                    axes.text(
                        x + width / 2, middle, str(rank), fontsize=SMALL, weight="bold", ha="center", va="center",
                        color=ink_on(rank_color(rank)),
                    )  # fmt: skip
                if len(ranks) > 1:
                    axes.add_patch(
                        Rectangle(
                            (left + i * cell + 0.02, y + 0.02), cell - 0.04, row_height - 0.14, fill=False,
                            edgecolor=theme.ink, linewidth=2.6, linestyle=DASHED,
                        )
                    )  # fmt: skip
                if not ranks:
                    axes.text(left + (i + 0.5) * cell, middle, "–", fontsize=SMALL, ha="center", va="center")
        y = top + row_height * len(rows) + 0.4
        axes.text(0.15, y, "Number and colour: the rank.", fontsize=SMALL, va="center")
        axes.add_patch(Rectangle((4.05, y - 0.2), 0.4, 0.4, fill=False, edgecolor=theme.ink, linewidth=2.6, linestyle=DASHED))
        axes.text(4.6, y, "padding: sample used twice", fontsize=SMALL, va="center")
    lines = "; ".join(
        f"{label}: " + ", ".join(f"rank {r} holds {list(shard)}" for r, shard in enumerate(shards))
        for label, shards in rows.items()
    )
    twice = "; ".join(
        f"sample {i} is used by ranks {' and '.join(map(str, ranks))} in {label}"
        for label, shards in rows.items()
        for i in range(samples)
        if len(ranks := holders(shards, i)) > 1
    )
    alt = f"Grid of {samples} samples shared by {world} ranks. {lines}. Padding: {twice or 'none'}."
    return Picture(figure, title, alt)
