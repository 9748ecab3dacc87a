"""Exercises of notebook 08: debugging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpulayer_nb.teach.checks.verdict import NOTHING_YET, Pattern, Verdict, on_every_rank

CULPRITS = (2, 1, 0)  # a rank skipped a batch; a rank had fewer batches; a rank alone validated through the wrapper


def check_culprits(*answers: Any) -> Verdict:
    """The rank to blame in each of the three reports of the exercise."""
    if any(answer is ... for answer in answers):
        return Verdict(False, NOTHING_YET)
    if len(answers) != len(CULPRITS):
        return Verdict(False, f"There are {len(CULPRITS)} reports, got {len(answers)} answers.")
    for report, (given, right) in enumerate(zip(answers, CULPRITS, strict=True), start=1):
        if given == right:
            continue
        reasons = {
            1: "It waits for the culprit. Look for the rank that is not in the collective.",
            2: "It waits for the culprit: the other rank has no batch left and has gone.",
            3: "It is where it should be, in the backward pass of its step; the other one is not.",
        }
        return Verdict(False, f"Report {report}: not rank {given}. {reasons[report]}")
    return Verdict(True, "Ranks 2, 1 and 0: none of them was the one that waited innocently.")


def check_skip_together(values: Sequence[Any]) -> Verdict:
    """Whether each rank skips, where rank 2 alone has a bad batch."""
    return on_every_rank(
        values, True,
        [
            Pattern([False, False, True, False], "Each rank decides alone: rank 2 skips and the others wait for it."),
            Pattern(False, "All agree not to skip: MIN needs all ranks to be bad, a broadcast knows only rank 0's flag."),
        ],
        "One bad batch, and all ranks skip.",
    )  # fmt: skip


def check_all_count(values: Sequence[Any]) -> Verdict:
    """The mean over all eleven samples, known to all: 0 … 4 on rank 0, 10, 20, 30 on rank 1, 5 on rank 2, 6 and 7 on rank 3."""
    return on_every_rank(
        values, 8.0,
        [
            Pattern(5.25, "You stopped with the shortest rank: seven of eleven samples are lost."),
            Pattern(8.375, "That is the mean of the ranks' means; rank 0's five samples count more than rank 2's one."),
            Pattern([2.0, 20.0, 5.0, 6.5], "Each rank knows its own samples only."),
            Pattern(88.0, "That is the sum: divide by the number of samples on all ranks."),
            Pattern(22.0, "You divided by the number of ranks, not by the number of samples."),
        ],
        "All eleven samples count: 8.0.",
    )  # fmt: skip
