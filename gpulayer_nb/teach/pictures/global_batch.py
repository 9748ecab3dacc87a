"""What more ranks do to the batch: the blocks that make up one global batch, and the loss that follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.patches import Rectangle

from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.topology import count
from gpulayer_nb.teach.pictures.look import LIGHT, LINE, SMALL, TITLE, Theme, canvas, ink_on, new_figure, rank_color
from gpulayer_nb.teach.pictures.picture import Picture

MARKS = ("o", "s", "^")
MARK_TEXT = ("●", "■", "△")


@dataclass(frozen=True)
class Training:
    """One line of the picture. `batch` is per rank; `losses` has one number an epoch."""

    name: str
    ranks: int
    batch: int
    lr: float
    steps_per_epoch: int
    losses: Sequence[float]


def global_batch(runs: Sequence[Training], *, title: str, theme: Theme = LIGHT) -> Picture:
    """Draws one to three trainings.

    Raises:
        UsageError: more than three; they could not be told apart.
    """
    if not 1 <= len(runs) <= len(MARKS):
        raise UsageError(f"The picture shows 1 to {len(MARKS)} trainings, got {len(runs)}.")
    widest = max(run.ranks * run.batch for run in runs)
    blocks = 1.35 + 0.55 * len(runs)
    with canvas(theme):
        figure = new_figure(blocks + 3.65, theme)
        high = figure.get_figheight()
        top = figure.add_axes((0, 1 - blocks / high, 1, blocks / high))
        top.set(xlim=(0, 8), ylim=(blocks, 0))
        top.axis("off")
        top.text(0.12, 0.36, title, fontsize=TITLE, weight="bold", va="center")
        for x, text in ((2.35, "one global batch"), (5.85, "steps/epoch"), (7.42, "lr")):
            top.text(x, 0.98, text, fontsize=SMALL, va="center", color=theme.muted)
        for i, run in enumerate(runs):
            y, unit = 1.25 + 0.55 * i, 3.2 / widest
            top.text(0.12, y + 0.2, f"{MARK_TEXT[i]} {count(run.ranks, 'rank')} × {run.batch}", fontsize=SMALL, va="center")
            for rank in range(run.ranks):
                x = 2.35 + rank * run.batch * unit
                top.add_patch(
                    Rectangle((x, y), run.batch * unit, 0.4, facecolor=rank_color(rank), edgecolor=theme.face, linewidth=2)
                )
                top.text(
                    x + run.batch * unit / 2, y + 0.2, str(run.batch), ha="center", va="center", fontsize=SMALL, weight="bold",
                    color=ink_on(rank_color(rank)),
                )  # fmt: skip
            top.text(6.35, y + 0.2, str(run.steps_per_epoch), fontsize=SMALL, ha="center", va="center")
            top.text(7.5, y + 0.2, f"{run.lr:g}", fontsize=SMALL, ha="center", va="center", weight="bold")
        axes = figure.add_axes((0.115, 0.72 / high, 0.5, 2.45 / high))
        for i, run in enumerate(runs):
            axes.plot(
                range(1, len(run.losses) + 1), run.losses, marker=MARKS[i], markersize=(12, 10, 15)[i], lw=LINE,
                color=theme.muted if i == 1 else theme.ink, linestyle=("-", "--", ":")[i], markeredgewidth=2,
                markerfacecolor=theme.face if i == 2 else None,
            )  # fmt: skip
        at = -9.0
        step = 0.11 * max(loss for run in runs for loss in run.losses)
        for value, i in sorted((run.losses[-1], i) for i, run in enumerate(runs)):
            at = max(value, at + step)
            axes.text(
                len(runs[i].losses) + 0.22, at, f"{MARK_TEXT[i]} {value:.2f}  {runs[i].name}", fontsize=SMALL + 1, va="center"
            )
        axes.set(xlabel="epoch", ylabel="training loss", ylim=(0, None), xticks=range(1, len(runs[0].losses) + 1))
    alt = f"{title}. " + " ".join(
        f"{count(run.ranks, 'rank')} with batch {run.batch} give a global batch of {run.ranks * run.batch}, "
        f"{run.steps_per_epoch} steps per epoch, learning rate {run.lr:g}: "
        f"training loss after {len(run.losses)} epochs {run.losses[-1]:.2f}."
        for run in runs
    )
    return Picture(figure, title, alt)
