"""Strong and weak scaling as measured, beside the ideal and Amdahl's line, with the machine's cores marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpulayer_nb.errors import UsageError
from gpulayer_nb.teach.pictures.look import LIGHT, LINE, SMALL, THIN, TITLE, Theme, canvas, new_figure
from gpulayer_nb.teach.pictures.picture import Picture

Repeats = Mapping[int, Sequence[float]]  # ranks → seconds per step, one number a repeat; the best counts


def amdahl(ranks: float, serial: float) -> float:
    """Speed-up on `ranks` ranks if the share `serial` of the work cannot be divided (Amdahl 1967)."""
    return 1 / (serial + (1 - serial) / ranks)


def speed_ups(seconds: Repeats) -> dict[int, float]:
    """How many times faster than one rank: best of one rank / best of n ranks."""
    return {n: min(seconds[1]) / min(seconds[n]) for n in sorted(seconds)}


def serial_share(speed_up_on_two: float) -> float:
    """The share of Amdahl's law that gives this speed-up on two ranks, at least 0."""
    return max(0.0, 2 / speed_up_on_two - 1)


def scaling(strong: Repeats, weak: Repeats, *, cores: int, note: str, theme: Theme = LIGHT) -> Picture:
    """Draws `strong[ranks]` (same total batch) and `weak[ranks]` (same batch per rank): seconds per step, one number a repeat.

    Raises:
        UsageError: one and two ranks were not measured.
    """
    for name, seconds in (("strong", strong), ("weak", weak)):
        if not {1, 2} <= set(seconds):
            raise UsageError(f"teach.scaling: `{name}` needs the times of 1 and of 2 ranks, got {sorted(seconds)}.")
    ranks, speed_up, efficiency = sorted(strong), speed_ups(strong), speed_ups(weak)
    serial, most = serial_share(speed_up[2]), max(strong)
    with canvas(theme):
        figure = new_figure(5.3, theme)
        figure.text(0.015, 0.95, "How much faster?", fontsize=TITLE, weight="bold", va="center")
        figure.text(0.015, 0.882, note, fontsize=SMALL, color=theme.muted, va="center")
        left, right = figure.add_axes((0.055, 0.14, 0.35, 0.55)), figure.add_axes((0.665, 0.14, 0.32, 0.55))
        fine = [1 + i * (most - 1) / 100 for i in range(101)]
        for axes, measured, repeats in ((left, speed_up, strong), (right, efficiency, weak)):
            axes.axvspan(cores, most + 0.3, color=theme.fill, lw=0, zorder=0)
            base = min(repeats[1])
            for n in sorted(repeats):
                axes.plot([n] * len(repeats[n]), [base / t for t in repeats[n]], "_", color=theme.muted, ms=11, mew=1.2, zorder=2)
            axes.plot(list(measured), list(measured.values()), "o-", color=theme.ink, lw=LINE, ms=11, zorder=4)
            axes.set(xlim=(0.8, most + 0.3), xlabel="ranks", xticks=ranks)
        top = max(most, speed_up[most]) * 1.06
        left.plot(fine, fine, color=theme.line, lw=THIN * 1.4, linestyle="--", zorder=1)
        left.plot(fine, [amdahl(n, serial) for n in fine], color=theme.muted, lw=LINE, linestyle=(0, (2, 1.2)), zorder=3)
        left.set(ylim=(0, top), yticks=range(most + 1))
        left.set_title("same total batch:\nspeed-up", fontsize=SMALL + 1, linespacing=1.3)
        right.axhline(1, color=theme.line, lw=THIN * 1.4, linestyle="--", zorder=1)
        right.set(ylim=(0, max(1.12, 1.06 * max(efficiency.values()))))
        right.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        right.set_title("same batch per rank:\nefficiency", fontsize=SMALL + 1, linespacing=1.3)
        labels = [
            (most - 0.12, "ideal"),
            (amdahl(most, serial), "Amdahl"),
            (speed_up[most], f"measured {speed_up[most]:.1f} ×"),
        ]
        at = -1.0
        for value, text in sorted(labels):
            at = max(value, at + 0.085 * top)
            left.text(most + 0.4, at, text, fontsize=SMALL, va="center")
        if cores < most:
            for axes, y in ((left, 0.05), (right, 0.6)):  # where no curve is: it has fallen
                axes.text(
                    (cores + most) / 2, y, "more ranks\nthan cores", transform=axes.get_xaxis_transform(), ha="center",
                    fontsize=SMALL, va="bottom", linespacing=1.2, color=theme.muted,
                )  # fmt: skip
    alt = (
        f"{note[0].upper()}{note[1:]}. Same total batch: speed-up {', '.join(f'{speed_up[n]:.2f} on {n}' for n in ranks)} ranks; "
        f"Amdahl's line with a serial share of {serial:.2f} allows {amdahl(most, serial):.2f} on {most}. Same batch per rank: "
        f"efficiency {', '.join(f'{100 * efficiency[n]:.0f} percent on {n}' for n in sorted(efficiency))} ranks. "
        f"The machine has {cores} cores."
    )
    return Picture(figure, "How much faster?", alt)
