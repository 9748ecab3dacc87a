"""Exercises of notebook 03: sharding the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gpulayer_nb.teach.checks.verdict import Mistake, Verdict, first_wrong


def shard(samples: int, rank: int, world: int) -> list[int]:
    """What `DistributedSampler(range(samples), world, rank, shuffle=False)` gives."""
    per_rank = math.ceil(samples / world)
    order = list(range(samples)) * math.ceil(per_rank * world / samples)
    return order[: per_rank * world][rank::world]


def check_shard(student: Callable[[int, int, int], list[int]]) -> Verdict:
    """`student(samples, rank, world)` gives the rank's samples as DistributedSampler does without shuffling."""
    cases = [(n, rank, world) for n, world in ((8, 4), (10, 4), (7, 3), (3, 4)) for rank in range(world)]
    return first_wrong(
        student, cases, shard,
        [
            Mistake(
                lambda n, r, w: list(range(n))[r * math.ceil(n / w) : (r + 1) * math.ceil(n / w)],
                "You cut blocks; the sampler deals the samples like cards: rank, rank + world, rank + 2·world …",
            ),
            Mistake(
                lambda n, r, w: list(range(n))[r::w],
                "The ranks would have different numbers of samples, and the one with more would wait for ever. "
                "The sampler repeats samples from the start.",
            ),
            Mistake(lambda n, r, w: list(range(n))[r::w][: n // w], "You drop the rest; that is drop_last=True."),
            Mistake(
                lambda n, r, w: (list(range(n)) + [n - 1] * (math.ceil(n / w) * w - n))[r::w],
                "The padding comes from the start of the list, not from its end.",
            ),
        ],
        lambda n, r, w: f"{n} samples, rank {r} of {w}", f"{len(cases)} shards.",
    )  # fmt: skip


def check_steps_per_epoch(student: Callable[[int, int, int], int]) -> Verdict:
    """`student(samples, world, batch)` gives the steps of one epoch; `batch` is per rank."""
    return first_wrong(
        student, [(1437, 4, 32), (1437, 1, 32), (10, 4, 2), (8, 2, 4)],
        lambda n, w, b: math.ceil(math.ceil(n / w) / b),
        [
            Mistake(lambda n, w, b: n // (w * b), "The last, smaller batch counts too: round up."),
            Mistake(lambda n, w, b: math.ceil(n / b), "That is one process alone; each of 4 ranks does a quarter of it."),
            Mistake(
                lambda n, w, b: math.ceil(math.ceil(n / w) / (b / w)),
                "batch_size is per rank; do not divide it by the world size.",
            ),
        ],
        lambda n, w, b: f"{n} samples, {w} ranks, batch {b}", "12, 45, 2 and 1 steps.",
    )  # fmt: skip


Flags = Sequence[Sequence[int]]


def check_exact_accuracy(student: Callable[[Flags, int], float]) -> Verdict:
    """`student(flags, samples)`: the accuracy over each sample once.

    `flags[rank]` are 1 (right) or 0 for the samples that rank got from a padding sampler without shuffling.
    """
    cases = []
    for right in ([1, 1, 1, 1, 1, 1, 0, 0, 0, 0], [0, 1, 1, 0, 1, 0]):
        n, world = len(right), 4
        cases.append(([[right[i] for i in shard(n, rank, world)] for rank in range(world)], n))

    def exact(flags: Flags, samples: int) -> float:
        dealt = [flag for place in zip(*flags, strict=True) for flag in place]
        return float(sum(dealt[:samples]) / samples)

    return first_wrong(
        student, cases, exact,
        [
            Mistake(
                lambda flags, n: sum(map(sum, flags)) / sum(map(len, flags)),
                "The padding is counted: 12 places for 10 samples, two of them twice.",
            ),
            Mistake(
                lambda flags, n: sum(map(sum, flags)) / n,
                "Right divisor, but the sum still has the padding in it: leave the samples out that come a second time.",
            ),
        ],
        lambda flags, n: f"{n} samples dealt to {len(flags)} ranks as {[list(f) for f in flags]}",
        "0.6 of 10 and 0.5 of 6 samples, each counted once.", digits=4,
    )  # fmt: skip
