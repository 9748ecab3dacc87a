"""Time of one all-reduce against the size of what it reduces, with the model latency + bytes / bandwidth."""

from __future__ import annotations

from collections.abc import Mapping

from gpulayer_nb.errors import UsageError
from gpulayer_nb.teach.pictures.look import LIGHT, LINE, SMALL, THIN, TITLE, Theme, canvas, new_figure
from gpulayer_nb.teach.pictures.picture import Picture

MARKS, DASHES = ("o", "s", "^", "D"), ("-", "--", ":", "-.")


def latency_and_bandwidth(seconds: Mapping[int, float]) -> tuple[float, float]:
    """(seconds for an empty message, bytes per second) through the smallest and the largest message of `seconds[n_bytes]`."""
    small, large = min(seconds), max(seconds)
    if len(seconds) < 2 or seconds[large] <= seconds[small]:
        raise UsageError("Latency and bandwidth need two sizes of which the larger takes longer. Next: measure again, larger.")
    bandwidth = (large - small) / (seconds[large] - seconds[small])
    return max(0.0, seconds[small] - small / bandwidth), bandwidth


def allreduce_cost(seconds: Mapping[int, Mapping[int, float]], *, note: str, theme: Theme = LIGHT) -> Picture:
    """Draws `seconds[ranks][n_bytes]`, the best time of an all-reduce: marks are measured, lines the model."""
    with canvas(theme):
        figure = new_figure(4.9, theme)
        figure.text(0.015, 0.945, "What one all-reduce costs", fontsize=TITLE, weight="bold", va="center")
        figure.text(0.015, 0.87, note, fontsize=SMALL, color=theme.muted, va="center")
        axes = figure.add_axes((0.125, 0.15, 0.55, 0.6))
        facts = []
        ends = {world: times[max(times)] for world, times in seconds.items()}
        for i, (world, times) in enumerate(sorted(seconds.items())):
            latency, bandwidth = latency_and_bandwidth(times)
            sizes = sorted(times)
            fine = [sizes[0] * (sizes[-1] / sizes[0]) ** (k / 60) for k in range(61)]
            axes.plot(
                [s / 1e6 for s in fine], [1e3 * (latency + s / bandwidth) for s in fine], color=theme.muted, lw=LINE,
                linestyle=DASHES[i],
            )  # fmt: skip
            axes.plot([s / 1e6 for s in sizes], [1e3 * times[s] for s in sizes], MARKS[i], color=theme.ink, ms=10)
            slower = ends[world] == max(ends.values())
            axes.text(
                sizes[-1] / 1e6 * 1.9, 1e3 * ends[world] * (0.9 if slower else 1.1),
                f"{world} ranks: {1e3 * latency:.1f} ms\n+ {1e9 / bandwidth:.1f} ms per MB", fontsize=SMALL,
                va="bottom" if slower else "top", linespacing=1.25,
            )  # fmt: skip
            facts.append(f"{world} ranks: {1e3 * latency:.1f} milliseconds plus {1e9 / bandwidth:.2f} milliseconds per megabyte")
        axes.set(xscale="log", yscale="log", xlabel="gradient, MB", ylabel="milliseconds")
        axes.set_xticks([0.001, 0.01, 0.1, 1, 10], ["0.001", "0.01", "0.1", "1", "10"])
        axes.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
        values = [1e3 * t for times in seconds.values() for t in times.values()]
        axes.set_ylim(min(values) / 2, max(values) * 2)
        axes.minorticks_off()
        axes.grid(True, color=theme.line, lw=THIN * 0.4)
    alt = (
        f"{note[0].upper()}{note[1:]}. Log-log plot of the time of one all-reduce against the gradient size. {'; '.join(facts)}."
    )
    return Picture(figure, "What one all-reduce costs", alt)
