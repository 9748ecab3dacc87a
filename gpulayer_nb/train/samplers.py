"""Samplers that give one rank its part of an epoch.

Runs in a rank, in the process that iterates the loader. Owns the order of samples; the dealing rule is plan.shards'.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch.utils.data import Sampler

from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.shards import Remainder, Shard
from gpulayer_nb.train.seed import KeptRandomState, seed_host


class ShardSampler(Sampler[int]):
    """A rank's part of a data set of known length, in order or shuffled anew each epoch.

    The order is torch's `DistributedSampler`'s: `randperm` seeded with `seed + epoch`, the start repeated as padding.
    """

    def __init__(self, shard: Shard, *, shuffle: bool, seed: int) -> None:
        self.shard = shard
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        positions, length = self.shard.positions(), self.shard.length
        if not self.shuffle:
            return (position % length for position in positions)
        generator = torch.Generator()
        generator.manual_seed(self.seed + self.epoch)
        order = torch.randperm(length, generator=generator)
        mine = torch.arange(positions.start, positions.stop, positions.step) % length
        return iter(order[mine].tolist())

    def __len__(self) -> int:
        return len(self.shard)


class DealtSampler(Sampler[Any]):
    """A rank's part of what another sampler draws: indices, or whole batches of them.

    Every rank draws the whole epoch with the same seeds, and keeps every `world_size`-th; so a sampler keeps its own
    rule (weights, groups), and no rank needs to be told anything.

    Args:
        inner: the user's sampler or batch sampler; it must have a length.
        agree: given the digest of this rank's draw, whether all ranks have the same.
    """

    def __init__(
        self, inner: Any, rank: int, world_size: int, remainder: Remainder, *, seed: int, agree: Callable[[str], bool]
    ) -> None:
        self.inner = inner
        self.rank, self.world_size, self.remainder = rank, world_size, remainder
        self.seed = seed
        self.epoch = 0
        self._agree = agree

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        for part in (self.inner, getattr(self.inner, "sampler", None)):
            if callable(set_epoch := getattr(part, "set_epoch", None)):
                set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        drawn = self._draw()
        if not self._agree(hashlib.blake2b(repr(drawn).encode(), digest_size=8).hexdigest()):
            raise UsageError(
                f"{type(self.inner).__name__} draws another order on each rank, so the epoch cannot be divided: samples would "
                "come twice or never. Let it draw from torch, numpy or random (we seed them equally), or from its set_epoch; "
                "or divide the data yourself and set use_distributed_sampler=False."
            )
        shard = Shard(len(drawn), self.rank, self.world_size, self.remainder)
        return (drawn[position % len(drawn)] for position in shard.positions())

    def _draw(self) -> list[Any]:
        """The whole epoch; the user's own random states are as before afterwards."""
        parts = (self.inner, getattr(self.inner, "sampler", None))
        generators = [g for part in parts if isinstance(g := getattr(part, "generator", None), torch.Generator)]
        states = [generator.get_state() for generator in generators]
        with KeptRandomState():
            seed_host(self.seed + self.epoch)
            for generator in generators:
                generator.manual_seed(self.seed + self.epoch)
            drawn = [_plain(item) for item in self.inner]
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
        return drawn

    def __len__(self) -> int:
        return len(Shard(len(self.inner), self.rank, self.world_size, self.remainder))


class SkippingSampler(Sampler[Any]):
    """Leaves out the first items once: a resumed epoch goes on where it was, without loading what was done."""

    def __init__(self, inner: Iterable[Any]) -> None:
        self.inner = inner
        self.skip = 0

    def set_epoch(self, epoch: int) -> None:
        self.inner.set_epoch(epoch)  # type: ignore[attr-defined]  # only put around samplers of ours

    def __iter__(self) -> Iterator[Any]:
        skip, self.skip = self.skip, 0
        return islice(iter(self.inner), skip, None)

    def __len__(self) -> int:
        return len(self.inner)  # type: ignore[arg-type]  # as above


def _plain(item: Any) -> Any:
    if isinstance(item, torch.Tensor):
        return item.tolist()
    if isinstance(item, (list, tuple)):
        return [_plain(part) for part in item]
    return item
