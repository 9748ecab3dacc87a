"""Exercises of notebook 07: how much faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpulayer_nb.teach.checks.verdict import NOTHING_YET, Mistake, Verdict, first_wrong


def check_amdahl(student: Callable[[int, float], float]) -> Verdict:
    """`student(ranks, serial)`: the speed-up if the share `serial` cannot be divided."""
    return first_wrong(
        student, [(1, 0.1), (2, 0.1), (4, 0.1), (8, 0.1), (4, 0.0), (4, 1.0)], lambda n, s: 1 / (s + (1 - s) / n),
        [
            Mistake(
                lambda n, s: s + (1 - s) * n, "That is Gustafson's law, where the work grows with the ranks: weak scaling."
            ),
            Mistake(
                lambda n, s: (1 - s) * n, "The serial part does not disappear: it takes the same time on any number of ranks."
            ),
            Mistake(lambda n, s: 1 / ((1 - s) + s / n), "Serial and parallel share are swapped."),
            Mistake(lambda n, s: s + (1 - s) / n, "That is the share of the time that is left; the speed-up is its inverse."),
        ],
        lambda n, s: f"{n} ranks, serial share {s}", "1, 1.82, 3.08, 4.71 at 10 % serial; never more than 10.", digits=4,
    )  # fmt: skip


def check_ring_megabytes(student: Callable[[int, float], float]) -> Verdict:
    """`student(ranks, megabytes)`: how much each rank sends in a ring all-reduce."""
    return first_wrong(
        student, [(2, 100), (4, 100), (8, 100), (4, 4.5)], lambda n, mb: 2 * (n - 1) / n * mb,
        [
            Mistake(
                lambda n, mb: (n - 1) / n * mb, "That is only the first half (reduce-scatter); finished chunks must travel too."
            ),
            Mistake(
                lambda n, mb: 2 * mb, "That is the limit for many ranks; with n ranks one chunk of n stays at home in each half."
            ),
            Mistake(
                lambda n, mb: (n - 1) * mb, "That is sending everything to everybody; the ring sends chunks of size 1/n."
            ),
        ],
        lambda n, mb: f"{n} ranks, {mb} MB", "100, 150, 175 and 6.75 MB.", digits=4,
    )  # fmt: skip


_EFFICIENCY = {3.0: "That is the speed-up; divide it by the 4 ranks.", 75.0: "Give it as a fraction: 0.75."}
_WEAK = {
    1.25: "That is upside down: the time of one rank over the time of four.",
    0.2: "Weak scaling: the work has grown with the ranks, so do not divide by 4 once more.",
    3.2: "That is the scaled speed-up; the efficiency is a quarter of it.",
}


def check_reading(speed_up: Any, efficiency: Any, weak_efficiency: Any) -> Verdict:
    """120 s alone and 40 s on 4 ranks; with four times the work on 4 ranks 150 s. Efficiencies as fractions."""
    if any(number is ... for number in (speed_up, efficiency, weak_efficiency)):
        return Verdict(False, NOTHING_YET)
    for name, given, expected, why in (
        ("speed_up", speed_up, 3.0, {1 / 3: "That is upside down: old time over new time.", 0.75: "That is the efficiency."}),
        ("efficiency", efficiency, 0.75, _EFFICIENCY),
        ("weak_efficiency", weak_efficiency, 0.8, _WEAK),
    ):
        if abs(given - expected) > 1e-3:
            reason = next((text for wrong, text in why.items() if abs(given - wrong) < 1e-3), "")
            return Verdict(False, f"{name}: expected {expected:g}, got {given:g}. {reason}".rstrip())
    return Verdict(True, "Three times as fast with 75 % efficiency; weak scaling 80 %.")
