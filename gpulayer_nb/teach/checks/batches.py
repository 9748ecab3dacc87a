"""Exercises of notebook 05: batch, learning rate, averages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpulayer_nb.teach.checks.verdict import NOTHING_YET, Mistake, Verdict, first_wrong

SAME = 1e-6  # largest difference of two weights that were trained the same way, but added up in another order


def check_global_batch(student: Callable[[int, int, int, int], int]) -> Verdict:
    """`student(nodes, devices, batch, accumulate)`: how many samples one optimizer step sees."""
    return first_wrong(
        student, [(2, 2, 32, 1), (2, 4, 16, 1), (1, 2, 8, 4), (4, 2, 16, 2)],
        lambda nodes, devices, batch, k: nodes * devices * batch * k,
        [
            Mistake(lambda nodes, devices, batch, k: nodes * batch * k, "Each node has `devices` ranks."),
            Mistake(lambda nodes, devices, batch, k: nodes * batch, "Each node has `devices` ranks, and batches accumulate."),
            Mistake(
                lambda nodes, devices, batch, k: nodes * devices * batch,
                "The optimizer steps once every `accumulate` batches.",
            ),
            Mistake(lambda nodes, devices, batch, k: batch, "That is one rank's batch; every rank brings one."),
            Mistake(
                lambda nodes, devices, batch, k: batch * k, "That is what one rank brings; every rank brings it."
            ),
        ],
        lambda nodes, devices, batch, k: (
            f"{nodes} nodes × {devices} devices, batch {batch}, {k} batches per step"
        ),
        "128, 128, 64 and 256 samples.",
    )  # fmt: skip


def check_same_training(batch: Any, difference: float | None) -> Verdict:
    """The batch per rank for which 4 ranks train as one process does with batch 128, and the weights' largest difference."""
    if batch is ...:
        return Verdict(False, NOTHING_YET)
    told = "" if difference is None else f" The weights differ by up to {difference:.2g}."
    if batch == 32 and difference is not None and difference < SAME:
        return Verdict(True, f"4 × 32 = 128: the weights agree to {SAME:g}.")
    why = {
        128: "4 ranks with 128 each make a global batch of 512.",
        8: "The nodes are counted twice: 2 × 2 ranks are 4, and 4 × 8 = 32.",
        64: "The devices are forgotten: 2 nodes × 2 devices = 4 ranks, and 4 × 64 = 256.",
    }
    reason = why.get(batch, f"4 ranks with {batch} each make a global batch of {4 * batch}, not 128.")
    if batch == 32:
        reason = "The batch is right, but the trainings differ: same learning rate, same order of samples?"
    return Verdict(False, f"{reason}{told}")


Pairs = Sequence[tuple[float, int]]


def check_exact_average(student: Callable[[Pairs], float]) -> Verdict:
    """`student(pairs)`: the mean over samples; `pairs` holds (mean, samples) of every batch of every rank."""
    ten = ((3.0, 4), (8.0, 1), (4.0, 4), (9.0, 1))  # losses 0 … 9 dealt to two ranks, batches of 4
    return first_wrong(
        student, [(ten,), (((1.0, 3), (5.0, 1)),)],
        lambda pairs: sum(mean * n for mean, n in pairs) / sum(n for _, n in pairs),
        [
            Mistake(
                lambda pairs: sum(mean for mean, _ in pairs) / len(pairs),
                "That is the mean of the batches' means: the batch with one sample counts as much as one with four.",
            ),
            Mistake(lambda pairs: sum(mean * n for mean, n in pairs) / len(pairs), "Divide by the samples, not by the batches."),
            Mistake(lambda pairs: pairs[0][0], "That is one batch only."),
        ],
        lambda pairs: f"(mean, samples) of the batches {list(pairs)}", "4.5 and 2.0.", digits=6,
    )  # fmt: skip
