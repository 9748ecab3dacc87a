"""Exercises of notebook 02: ranks that talk. The group is 2 × 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpulayer_nb.teach.checks.verdict import Pattern, Verdict, on_every_rank


def check_weighted_mean(values: Sequence[Any]) -> Verdict:
    """The mean over all samples, where rank r holds r + 1 samples with the mean r + 0.25."""
    return on_every_rank(
        values, 2.25,
        [
            Pattern(1.75, "That is the mean of the four means; rank 3 has four samples and counts four times as much as rank 0."),
            Pattern(7.0, "That is the sum of the means: all_reduce adds, it does not average."),
            Pattern(5.625, "You divided the sum of all samples by the number of ranks, not by the number of samples."),
            Pattern([0.25, 1.25, 2.25, 3.25], "Every rank still has its own mean: nothing was sent."),
            Pattern(2, "The fraction is gone: use a float tensor; an integer one, or //, cuts it off."),
        ],
        "10 samples, mean 2.25 on every rank.",
    )  # fmt: skip


def check_largest(values: Sequence[Any]) -> Verdict:
    """The rank that holds the largest of 0, 2, 4, 1."""
    return on_every_rank(
        values, 2,
        [
            Pattern(4, "That is the largest value; asked was the rank that holds it."),
            Pattern([2, None, None, None], "Only rank 0 knows. Every rank needs the answer: all_gather gives all values to all."),
            Pattern([0, 1, 2, 3], "Every rank named itself: nothing was sent."),
            Pattern([0, 2, 4, 1], "Every rank gave its own value: nothing was sent."),
        ],
        "Rank 2, and all four ranks know it.",
    )  # fmt: skip


def check_logging(values: Sequence[Any]) -> Verdict:
    """The mean of the losses 1, 2, 3, 4 on rank 0, which alone reports it; the others return None."""
    return on_every_rank(
        values, [2.5, None, None, None],
        [
            Pattern(2.5, "The value is right, but all four ranks would print it. All call all_reduce; only rank 0 reports."),
            Pattern([10.0, None, None, None], "That is the sum: divide by world_size."),
            Pattern([1.0, None, None, None], "That is rank 0's own loss: it never met the others."),
            Pattern(None, "No rank reports anything."),
        ],
        "All ranks take part, one reports 2.5.",
    )  # fmt: skip
