"""Keeps ranks together whose loaders may differ in length: asks before each batch whether all have one.

Runs in a rank, only for loaders that are not ours to divide. Costs one small exchange per batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.group import Group

_END = object()


def in_step(batches: Iterator[Any], group: Group) -> Iterator[Any]:
    """The batches, ending after the same one on every rank.

    Raises:
        UsageError: on every rank, when one has no batch left and another has.
    """
    done = 0
    while True:
        batch = next(batches, _END)
        have = group.sum([float(batch is not _END)])[0]
        if have == 0:
            return
        if have < group.world_size:
            has_batch = group.gather(batch is not _END)
            short = [rank for rank, has in enumerate(has_batch) if not has]
            long = [rank for rank, has in enumerate(has_batch) if has]
            raise UsageError(
                f"{_ranks(short)} ended after {done} {'batch' if done == 1 else 'batches'} while {_ranks(long)} "
                f"{'is' if len(long) == 1 else 'are'} in batch {done + 1}. Every rank needs as many batches: give a DataLoader "
                "and let it be divided, or cut the longer ones (limit_train_batches)."
            )
        yield batch
        done += 1


def _ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = ", ".join(map(str, ranks[:8])) + (" …" if len(ranks) > 8 else "")
    return f"ranks {shown}"
