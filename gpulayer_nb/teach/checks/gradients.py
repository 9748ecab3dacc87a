"""Exercises of notebook 04: what DDP does. The group is 2 × 2; one weight from 0, x = 1 … 8 dealt out, y = 2x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpulayer_nb.teach.checks.verdict import Pattern, Verdict, on_every_rank


def check_average_gradients(values: Sequence[Any]) -> Verdict:
    """The gradient of the weight on every rank, after the student's function has averaged it."""
    return on_every_rank(
        values, -102.0,
        [
            Pattern(-408.0, "That is the sum: divide by world_size after the all-reduce."),
            Pattern(-204.0, "You divided by the number of nodes; there are world_size gradients."),
            Pattern(
                [-102.0, -408.0, -408.0, -408.0],
                "Only rank 0 divides. What happens to the gradient must happen on every rank.",
            ),
            Pattern(
                [-52.0, -80.0, -116.0, -160.0],
                "The gradients did not change. Did you reduce a copy, or the weights? Change p.grad in place.",
            ),
            Pattern(
                [-102.0, -89.0, -69.0, -40.0],
                "dist.reduce gives the sum to one rank only (the others hold half-finished sums): use all_reduce.",
            ),
        ],
        "The same −102 on every rank, the gradient of the whole batch.", tolerance=1e-4,
    )  # fmt: skip


def check_accumulation(values: Sequence[Any]) -> Verdict:
    """(weight after the step, number of all-reduces) on every rank, two micro-batches."""
    return on_every_rank(
        values, (1.02, 1),
        [
            Pattern((0.0, 0), "Nothing was trained yet: replace the `...`, and call backward for both micro-batches."),
            Pattern((2.04, 1), "Twice too far: divide each micro-batch's loss by the number of micro-batches."),
            Pattern((2.04, 2), "Twice too far, and 2 all-reduces: divide each loss by 2, and hold the first in no_sync()."),
            Pattern(
                (1.02, 2),
                "The weight is right, but there were 2 all-reduces. no_sync() must hold the forward pass of the first "
                "micro-batch too.",
            ),
            Pattern(
                [(0.52, 0), (0.8, 0), (1.16, 0), (1.6, 0)],
                "No all-reduce at all: the ranks have drifted apart. The last micro-batch must be outside no_sync().",
            ),
        ],
        "Weight 1.02 with one all-reduce.", tolerance=1e-4,
    )  # fmt: skip


def check_equal_on_all_ranks(values: Sequence[Any]) -> Verdict:
    """(answer for equal tensors, answer for tensors of which rank 3 has its entries swapped) on every rank."""
    return on_every_rank(
        values, (True, False),
        [
            Pattern((True, True), "[1, 2] and [2, 1] were taken for equal: compare the entries, not their sum."),
            Pattern(
                [(True, True), (True, True), (True, True), (True, False)],
                "Only rank 3 noticed. Each rank compared with rank 0; the ranks must also tell each other.",
            ),
            Pattern((False, False), "Equal tensors were taken for different ones."),
        ],
        "Equal tensors are recognised, one differing rank is noticed by all.",
    )  # fmt: skip
