"""One training step on every rank: what it computes, and when each bucket of gradients is on the wire."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.patches import Patch, Rectangle

from gpulayer_nb.teach.clocks.step_clock import StepTimes
from gpulayer_nb.teach.pictures.look import (
    COMPUTE,
    LIGHT,
    SMALL,
    THIN,
    TITLE,
    WIRE,
    Theme,
    canvas,
    ink_on,
    new_figure,
    rank_color,
)
from gpulayer_nb.teach.pictures.picture import Picture


def middle_step(ranks: Sequence[Sequence[StepTimes]]) -> list[StepTimes]:
    """The step of median length, one entry a rank, its times in milliseconds from its first event on any rank."""
    spans = sorted(
        (max(steps[n].optimizer[1] for steps in ranks) - min(steps[n].forward[0] for steps in ranks), n)
        for n in range(len(ranks[0]))
    )
    chosen = spans[len(spans) // 2][1]
    zero = min(steps[chosen].forward[0] for steps in ranks)
    return [steps[chosen].in_milliseconds_from(zero) for steps in ranks]


def waiting(step: StepTimes) -> float:
    """From the last bucket's start, or the end of backward if that is earlier, to the optimizer: what the rank only waits."""
    return step.optimizer[0] - _computed(step)


def step_timeline(
    ranks: Sequence[Sequence[StepTimes]], *, title: str, note: str, end_ms: float | None = None, theme: Theme = LIGHT
) -> Picture:
    """Draws the step of median length of `ranks[rank]`, the answers of `time_steps` in rank order.

    Args:
        end_ms: where the time axis ends; two pictures to be compared want the same.
    """
    shown = middle_step(ranks)
    world, end = len(shown), end_ms or max(step.optimizer[1] for step in shown)
    with canvas(theme):
        figure = new_figure(2.55 + 0.92 * world, theme)
        high = figure.get_figheight()
        axes = figure.add_axes((0.115, 1.35 / high, 0.865, 1 - (1.35 + 1.1) / high))
        figure.text(0.015, 1 - 0.34 / high, title, fontsize=TITLE, weight="bold", va="center")
        figure.text(0.015, 1 - 0.74 / high, note, fontsize=SMALL, va="center", color=theme.muted)

        def bar(y: float, height: float, start: float, stop: float, color: str, text: str = "", hatch: str = "") -> None:
            axes.add_patch(
                Rectangle(
                    (start, y), stop - start, height, facecolor=color, edgecolor=theme.ink,
                    linewidth=THIN if height > 0.15 else THIN / 2, hatch=hatch, zorder=2,
                )
            )  # fmt: skip
            if text and (stop - start) / end > 0.028 * len(text):
                axes.text(
                    (start + stop) / 2, y + height / 2, text, ha="center", va="center", fontsize=SMALL, zorder=3,
                    color=ink_on(color),
                )  # fmt: skip

        for rank, step in enumerate(shown):
            computed = _computed(step)
            bar(rank + 0.06, 0.42, *step.forward, COMPUTE["forward"], "forward")
            bar(rank + 0.06, 0.42, step.backward[0], computed, COMPUTE["backward"], "backward")
            if waiting(step) > 0.004 * end:
                bar(rank + 0.06, 0.42, computed, step.optimizer[0], theme.face, hatch="///")
            bar(rank + 0.06, 0.42, *step.optimizer, COMPUTE["optimizer"])
            placed = in_lanes(step.buckets)
            thick = 0.42 / max((lane + 1 for lane, *_ in placed), default=1)
            for lane, number, start, stop in placed:
                bar(rank + 0.51 + lane * thick, thick, start, stop, WIRE, str(number) if thick > 0.3 else "")
            stripe = Rectangle((-0.022 * end, rank + 0.06), 0.012 * end, 0.84, facecolor=rank_color(rank), clip_on=False)
            axes.add_patch(stripe)
        axes.set(xlim=(0, end * 1.005), ylim=(world + 0.05, 0), xlabel="milliseconds")
        axes.set_yticks([rank + 0.48 for rank in range(world)], [f"rank {rank}" for rank in range(world)])
        axes.tick_params(axis="y", length=0, pad=16)
        axes.spines["left"].set_visible(False)
        figure.legend(
            handles=[
                Patch(facecolor=WIRE, edgecolor=theme.ink, label="all-reduce of a bucket"),
                Patch(facecolor=theme.face, edgecolor=theme.ink, hatch="///", label="waits for it"),
                Patch(facecolor=COMPUTE["optimizer"], edgecolor=theme.ink, label="optimizer"),
            ],
            loc="lower center", ncols=3, bbox_to_anchor=(0.53, 0.0), handlelength=1.3, columnspacing=1.2,
        )  # fmt: skip
    alt = (
        f"{title}. {note[0].upper()}{note[1:]}. Timeline of one training step on {world} ranks, {end:.0f} milliseconds. "
        + " ".join(
            f"Rank {rank}: forward {step.forward[1] - step.forward[0]:.0f} ms, backward from {step.backward[0]:.0f} ms, "
            f"{len(step.buckets)} all-reduces between {min(b[1] for b in step.buckets):.0f} and "
            f"{max(b[2] for b in step.buckets):.0f} ms, waiting {waiting(step):.0f} ms."
            for rank, step in enumerate(shown)
        )
    )
    return Picture(figure, title, alt)


def in_lanes(buckets: Sequence[tuple[int, float, float]]) -> list[tuple[int, int, float, float]]:
    """(lane, number, start, stop) of each bucket: those in flight together get lanes of their own."""
    free_from: list[float] = []
    placed = []
    for number, start, stop in sorted(buckets, key=lambda bucket: bucket[1]):
        lane = next((i for i, until in enumerate(free_from) if until <= start), len(free_from))
        free_from[lane : lane + 1] = [stop]
        placed.append((lane, number, start, stop))
    return placed


def _computed(step: StepTimes) -> float:
    handed_over = max((start for _, start, _ in step.buckets), default=step.backward[1])
    return min(handed_over, step.backward[1])
