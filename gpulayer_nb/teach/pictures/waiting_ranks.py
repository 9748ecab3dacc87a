"""What a hang looks like: which rank waits in which collective since when, and which rank is not there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from gpulayer_nb.errors import UsageError
from gpulayer_nb.teach.clocks.rank_log import Span
from gpulayer_nb.teach.pictures.look import COMPUTE, LIGHT, SMALL, THIN, TITLE, WIRE, Theme, canvas, new_figure, rank_color
from gpulayer_nb.teach.pictures.picture import Picture


def odd_ones(lanes: Sequence[Sequence[Span]]) -> list[tuple[int, int, int, int]]:
    """(k, rank, its step, the others' step) wherever the k-th finished collectives of the ranks do not belong together."""
    found = []
    done = [[span.step for span in lane if span.kind == "collective"] for lane in lanes]
    for k in range(min(map(len, done), default=0)):
        usual = Counter(steps[k] for steps in done).most_common(1)[0][0]
        found += [(k, rank, steps[k], usual) for rank, steps in enumerate(done) if steps[k] != usual]
    return found


def verdict(lane: Sequence[Span], others: int) -> str:
    """One line on what a rank is doing; `others` is how many collectives the busiest rank has entered."""
    if lane and lane[-1].kind == "wait":
        return f"waits in its collective of step {lane[-1].step}"
    entered = sum(span.kind != "compute" for span in lane)
    fewer = others - entered
    return "has finished" + (f": {fewer} collective{'s' * (fewer > 1)} fewer than the others" if fewer else "")


def waiting_ranks(lanes: Sequence[Sequence[Span]], *, title: str, note: str, theme: Theme = LIGHT) -> Picture:
    """Draws `lanes[rank]`, the spans of that rank's `RankLog`; ranks on one machine share a clock.

    The k-th collective of every rank is joined by a line; a rank that brought another step than the others is drawn inverted.

    Raises:
        UsageError: nothing was logged.
    """
    if not any(lanes):
        raise UsageError("teach.waiting_ranks: no rank has logged anything. Next: collect `log.spans` with `%%ranks --as lanes`.")
    world, zero = len(lanes), min(span.start for lane in lanes for span in lane)
    busy = max(span.end if span.end is not None else span.start for lane in lanes for span in lane) - zero
    now = 1.9 * busy
    others = max(sum(span.kind != "compute" for span in lane) for lane in lanes)
    verdicts = [verdict(lane, others) for lane in lanes]
    odd = {(k, rank) for k, rank, _, _ in odd_ones(lanes)}
    done = [[span for span in lane if span.kind == "collective"] for lane in lanes]
    with canvas(theme):
        figure = new_figure(2.25 + 1.0 * world, theme)
        high = figure.get_figheight()
        axes = figure.add_axes((0.115, 0.78 / high, 0.865, 1 - (0.78 + 1.15) / high))
        figure.text(0.015, 1 - 0.34 / high, title, fontsize=TITLE, weight="bold", va="center")
        figure.text(0.015, 1 - 0.74 / high, note, fontsize=SMALL, va="center", color=theme.muted)
        for rank, lane in enumerate(lanes):
            for span in lane:
                face = {"compute": COMPUTE["forward"], "collective": WIRE, "wait": theme.face}[span.kind]
                start, end = span.start - zero, now if span.end is None else span.end - zero
                axes.add_patch(
                    Rectangle(
                        (start, rank + 0.1), end - start, 0.42, facecolor=face, edgecolor=theme.ink, linewidth=THIN,
                        hatch="///" if span.kind == "wait" else "",
                    )
                )  # fmt: skip
            stripe = Rectangle((-0.022 * now, rank + 0.1), 0.012 * now, 0.82, facecolor=rank_color(rank), clip_on=False)
            axes.add_patch(stripe)
            axes.text(
                0, rank + 0.76, verdicts[rank], fontsize=SMALL, va="center",
                bbox={"facecolor": theme.face, "edgecolor": "none", "pad": 1.5}, zorder=4,
            )  # fmt: skip
        for k in range(min(map(len, done))):
            ends = [(lane[k].end or lane[k].start) - zero for lane in done]
            axes.plot(ends, [rank + 0.31 for rank in range(world)], color=WIRE, lw=4, zorder=3)
            for rank, at in enumerate(ends):
                inverted = (k, rank) in odd
                axes.plot(
                    at, rank + 0.31, "o", markersize=23, markerfacecolor=theme.ink if inverted else WIRE,
                    markeredgecolor="#1B1F24" if inverted else theme.ink, markeredgewidth=2 * THIN if inverted else THIN,
                    zorder=5,
                )  # fmt: skip
                axes.text(
                    at, rank + 0.325, str(done[rank][k].step), ha="center", va="center", fontsize=SMALL, weight="bold", zorder=6,
                    color=theme.face if inverted else "#000000",
                )  # fmt: skip
        axes.set(xlim=(0, now), ylim=(world + 0.02, 0), xlabel="seconds")
        axes.set_yticks([rank + 0.5 for rank in range(world)], [f"rank {rank}" for rank in range(world)])
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.tick_params(axis="y", length=0, pad=16)
        axes.spines["left"].set_visible(False)
    met = " ".join(
        f"In collective {k + 1} rank {rank} brought step {step} and the others step {usual}."
        for k, rank, step, usual in odd_ones(lanes)
    )
    alt = f"{title}. {note[0].upper()}{note[1:]}. " + " ".join(f"Rank {rank} {v}." for rank, v in enumerate(verdicts)) + f" {met}"
    return Picture(figure, title, alt.strip())
