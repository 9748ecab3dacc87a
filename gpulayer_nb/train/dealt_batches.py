"""Whole batches dealt out to the ranks in turn, for predictions, which go back in order.

Runs in a rank. Owns which order that is: the data set's, also where the loader shuffles. The user's own loader is never changed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.divided_loader import limited
from gpulayer_nb.train.loaders import use_fork
from gpulayer_nb.train.samplers import DealtSampler


def deal_batches(
    loader: Any, rank: int, world_size: int, *, seed: int = 0, limit: int | float | None = None, device_type: str = "cpu"
) -> Iterator[Any]:
    """This rank's batches: the k-th of all goes to rank `k % world_size`.

    So the batches of all ranks, taken in turn, are those of one process. A loader that shuffles or drops its last batch gives
    the data set in order and in whole; a sampler of the user's own keeps its order.

    Args:
        limit: batches (int) or share of them (float) that each rank takes at most.

    Raises:
        UsageError: the loader's batch sampler holds one rank's part of the data only.
    """
    length: int | None = None
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        batches: Iterator[Any] = islice(iter(loader), rank, None, world_size)
    else:
        own = _dealt(loader, rank, world_size, seed, device_type)
        batches, length = iter(own), len(own)
    most = limited(limit, length)
    return batches if most is None else islice(batches, most)


def _dealt(loader: DataLoader[Any], rank: int, world_size: int, seed: int, device_type: str) -> DataLoader[Any]:
    own = copy.copy(loader)
    own.__dict__["_iterator"] = None  # persistent workers are the copy's own
    use_fork(own, device_type)
    place = "batch_sampler"
    if own.batch_size is not None:
        chosen: Any = BatchSampler(_in_order(own.sampler, own.dataset), own.batch_size, drop_last=False)
    elif own.batch_sampler is None:  # the data set gives whole batches
        chosen, place = _in_order(own.sampler, own.dataset), "sampler"
    else:
        chosen = own.batch_sampler
        if isinstance(getattr(chosen, "sampler", None), DistributedSampler):
            raise UsageError(
                "the loader's batch sampler draws from a DistributedSampler, which gives this rank a part of the data only. "
                "Leave it out: batches are dealt out to the ranks, and predictions come back in order."
            )
    own.__dict__[place] = DealtSampler(chosen, rank, world_size, "keep", seed=seed, agree=lambda digest: True)
    return own


def _in_order(sampler: Any, dataset: Any) -> Any:
    """The data set's order in place of a plain shuffle or a rank's share; any other sampler as it is."""
    shuffles = type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == len(dataset)
    return SequentialSampler(dataset) if shuffles or isinstance(sampler, DistributedSampler) else sampler
