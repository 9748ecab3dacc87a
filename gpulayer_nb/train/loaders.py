"""Divides a loader among the ranks without losing anything else the user set on it.

Runs in a rank before its first step. Owns which sampling can be divided and what is said when it cannot. The user's own
loader is never changed.
"""

from __future__ import annotations

import copy
import multiprocessing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.shards import Remainder, Shard
from gpulayer_nb.plan.topology import count
from gpulayer_nb.train.divided_loader import DividedLoader
from gpulayer_nb.train.samplers import DealtSampler, ShardSampler, SkippingSampler
from gpulayer_nb.train.stream_share import StreamShare

Agree = Callable[[str], bool]


def divide(
    loader: Any,
    rank: int,
    world_size: int,
    *,
    training: bool,
    seed: int | None = None,
    fallback_seed: int = 0,
    worker_seed: int = 0,
    replace_sampler: bool = True,
    agree: Agree = lambda digest: True,
    device_type: str = "cpu",
) -> DividedLoader:
    """This rank's part of a loader: every sample once over all ranks (in training some twice, so that ranks stay in step).

    Args:
        seed: of the shuffles, the same on all ranks; else that of the loader's own generator; else `fallback_seed`.
        worker_seed: from which a loader with its own generator seeds its worker processes, differently on each rank.
        replace_sampler: False: the loader is already divided and is taken as it is.
        agree: whether all ranks hold the same digest; asked only for samplers that are not torch's own two.

    Raises:
        UsageError: the loader cannot be divided; says which part of it and what to do.
    """
    what = "training" if training else "validation"
    if not isinstance(loader, DataLoader):
        return _as_it_is(loader, world_size, what)
    if not replace_sampler:
        return _already_divided(loader, rank, world_size)
    if training and not isinstance(loader.dataset, IterableDataset) and _length(loader.dataset) == 0:
        raise UsageError("the training loader's data set is empty: there is nothing to train on.")
    own = copy.copy(loader)
    own.__dict__["_iterator"] = None  # persistent workers are the copy's own
    use_fork(own, device_type)
    divided = _divide_stream(own, rank, world_size, training) if isinstance(loader.dataset, IterableDataset) else None
    if divided is None:
        if seed is None:
            seed = fallback_seed if (own_seed := seed_of(loader)) is None else own_seed
        divided = _divide_samples(own, rank, world_size, training=training, seed=seed, agree=agree)
    if loader.generator is not None:
        divided._generator = torch.Generator()  # the same one on every rank would give every rank's workers the same noise
        divided._worker_seed = (worker_seed, loader.generator.initial_seed(), rank)
        own.generator = divided._generator
    return divided


def seed_of(loader: Any) -> int | None:
    """The seed of the generator that the loader's order is drawn from; None if it has none of its own."""
    batch_sampler = getattr(loader, "batch_sampler", None)
    for part in (getattr(loader, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None), loader):
        generator = getattr(part, "generator", None)
        if isinstance(generator, torch.Generator):
            return generator.initial_seed()
    return None


def _divide_samples(own: Any, rank: int, world_size: int, *, training: bool, seed: int, agree: Agree) -> DividedLoader:
    sampler, batch_sampler, batch_size = own.sampler, own.batch_sampler, own.batch_size
    groups = batch_sampler is not None and batch_size is None  # the user's own batch sampler
    chosen = batch_sampler if groups else sampler
    length = len(own.dataset)
    if isinstance(chosen, DistributedSampler) or (groups and isinstance(getattr(chosen, "sampler", None), DistributedSampler)):
        return _own_distributed(own, chosen, rank, world_size, training=training)
    remainder: Remainder = ("drop" if own.drop_last else "pad") if training else "keep"
    notices: list[str] = []
    whole = (type(sampler) is SequentialSampler and len(sampler) == length) or (
        type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == length
    )
    if not groups and whole:
        shuffle = type(sampler) is RandomSampler
        dealt: Any = ShardSampler(Shard(length, rank, world_size, remainder), shuffle=shuffle, seed=seed)
        samples: int | None = min(dealt.shard.total, length)
        repeated = dealt.shard.repeated
    else:
        total = _length(chosen)
        if total is None:
            raise UsageError(
                f"{type(chosen).__name__} has no length, so its draws cannot be divided among {count(world_size, 'rank')}. "
                "Give it a __len__, or divide the data yourself and set use_distributed_sampler=False."
            )
        if world_size == 1:
            agree = lambda digest: True  # noqa: E731  # nobody to disagree with
        dealt = DealtSampler(chosen, rank, world_size, "pad" if groups and training else remainder, seed=seed, agree=agree)
        samples = None if groups else total
        repeated = Shard(total, rank, world_size, dealt.remainder).repeated
    if training and repeated > 0 and len(dealt) * world_size - repeated < world_size:
        have = len(dealt) * world_size - repeated
        notices.append(
            f"{count(have, 'batch' if groups else 'training sample')} for {count(world_size, 'rank')}: "
            "some are used twice in each step, so that every rank has one."
        )
    skipping = SkippingSampler(dealt)
    if groups:
        own.__dict__["batch_sampler"] = skipping
        own.__dict__["sampler"] = dealt
    elif batch_sampler is None:  # batch_size=None: the data set gives whole batches
        own.__dict__["sampler"] = skipping
    else:
        own.__dict__["sampler"] = dealt
        if type(batch_sampler) is not BatchSampler:
            raise UsageError(
                f"the loader's batch sampler is a {type(batch_sampler).__name__} made by the loader itself; it cannot be remade "
                "for a part of the data. Pass it as batch_sampler=, or set use_distributed_sampler=False."
            )
        skipping = SkippingSampler(_Batches(dealt, batch_size, own.drop_last))
        own.__dict__["batch_sampler"] = skipping
    return DividedLoader(
        source=own, batch_size=batch_size, batches=len(own), samples=samples, equal=True, notices=tuple(notices),
        _skipping=skipping, _samplers=(dealt,),
    )  # fmt: skip


class _Batches(BatchSampler):
    def set_epoch(self, epoch: int) -> None:
        self.sampler.set_epoch(epoch)  # type: ignore[union-attr]  # one of ours


def _own_distributed(own: Any, chosen: Any, rank: int, world_size: int, *, training: bool) -> DividedLoader:
    """The user has put a DistributedSampler in: keep it, tell it the epoch, and check that it is meant for these ranks."""
    sampler = chosen if isinstance(chosen, DistributedSampler) else chosen.sampler
    if (sampler.num_replicas, sampler.rank) != (world_size, rank):
        raise UsageError(
            f"the loader's DistributedSampler is for rank {sampler.rank} of {sampler.num_replicas}, but this is rank {rank} of "
            f"{world_size}. Leave the sampler out (shuffle=True is enough): the data are divided for you."
        )
    repeated = sampler.total_size - (_length(sampler.dataset) or 0)
    notices: tuple[str, ...] = ()
    if not training and repeated > 0:
        notice = (
            f"the validation loader's DistributedSampler gives {count(repeated, 'sample')} twice, so the means are not exact. "
            "Leave the sampler out: every sample then counts once."
        )
        notices = (notice,)
    return DividedLoader(
        source=own, batch_size=own.batch_size, batches=len(own), samples=_length(own.dataset), equal=True, notices=notices,
        _samplers=(sampler,),
    )  # fmt: skip


def _divide_stream(own: Any, rank: int, world_size: int, training: bool) -> DividedLoader:
    stream, samples = own.dataset, _length(own.dataset)
    share = StreamShare(stream, rank, world_size, training=training)
    if world_size > 1 or share.wants_epoch:
        own.__dict__["dataset"] = share
    batches = _length(own)  # what the data set says; it may give more or fewer
    own.__dict__["_IterableDataset_len_called"] = None  # so that torch does not warn of it either
    notices: tuple[str, ...] = ()
    if world_size > 1:
        notice = (
            f"{type(stream).__name__} is a stream: rank r takes items r, r + {world_size}, …, so it has to come in "
            "the same order on every rank. If it divides itself, set use_distributed_sampler=False."
        )
        notices = (notice,)
    return DividedLoader(
        source=own, batch_size=own.batch_size, batches=batches, samples=samples, equal=world_size == 1, exact=False,
        notices=notices, _samplers=(share,),
    )  # fmt: skip


def _already_divided(loader: Any, rank: int, world_size: int) -> DividedLoader:
    stream = isinstance(loader.dataset, IterableDataset)
    parts = (loader.dataset,) if stream else (loader.sampler, loader.batch_sampler)
    drawn_by = loader.sampler if loader.batch_size is not None or loader.batch_sampler is None else loader.batch_sampler
    return DividedLoader(
        source=loader, batch_size=loader.batch_size, batches=_length(loader), samples=None, equal=world_size == 1,
        exact=not stream and isinstance(drawn_by, (SequentialSampler, RandomSampler, DistributedSampler)),
        _samplers=tuple(part for part in parts if callable(getattr(part, "set_epoch", None))),
    )  # fmt: skip


def _as_it_is(loader: Any, world_size: int, what: str) -> DividedLoader:
    """Something that is no DataLoader: every rank reads what its own one gives."""
    parts = list(loader.values()) if isinstance(loader, Mapping) else loader if isinstance(loader, (list, tuple)) else []
    if any(isinstance(part, DataLoader) for part in parts):
        raise UsageError(
            f"{len(parts)} {what} loaders are given, as a {type(loader).__name__}; one is supported. Next: join the data sets "
            "with torch.utils.data.ConcatDataset, or let one data set return a part of each."
        )
    if not isinstance(loader, Iterable) or isinstance(loader, Mapping):
        raise UsageError(
            f"the {what} loader is a {type(loader).__name__}, which cannot be iterated for batches. Give a torch DataLoader, or "
            "another iterable of batches."
        )
    notices: tuple[str, ...] = ()
    if world_size > 1:
        notice = (
            f"the {what} loader is a {type(loader).__name__}, not a torch DataLoader, so it is not divided: every rank reads all "
            "that its own gives. Use a DataLoader to have the data divided."
        )
        notices = (notice,)
    samplers = (loader,) if callable(getattr(loader, "set_epoch", None)) else ()
    return DividedLoader(
        source=loader, batch_size=getattr(loader, "batch_size", None), batches=_length(loader), samples=None,
        equal=world_size == 1, exact=isinstance(loader, (list, tuple)), notices=notices, _samplers=samplers,
    )  # fmt: skip


def use_fork(own: Any, device_type: str) -> None:
    """Data sets defined in a notebook cell cannot be imported by a fresh process, so loader workers are forked on CPU."""
    if own.num_workers == 0 or own.multiprocessing_context is not None or device_type != "cpu":
        return
    if multiprocessing.get_start_method() != "fork" and "fork" in multiprocessing.get_all_start_methods():
        own.multiprocessing_context = "fork"


def _length(thing: Any) -> int | None:
    """Its length, or None if it has none."""
    try:
        return len(thing)
    except (TypeError, NotImplementedError):
        return None
