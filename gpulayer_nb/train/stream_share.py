"""A rank's part of an iterable data set: every item is read, every `world_size`-th is kept.

Runs in a rank or in its loader's worker processes. Must not know metrics or groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import IterableDataset

from gpulayer_nb.plan.shards import Shard

_OWN = ("_inner", "_rank", "_world_size", "_training", "_epoch")


class StreamShare(IterableDataset[Any]):
    """Deals the items of a stream; all else is the user's data set, which reads and writes of attributes go through to.

    In training, ranks that come off short give one item twice, so that all have as many: the lock step of the gradient
    exchange needs it. In validation every item is given exactly once. A data set with a `set_epoch` is told the epoch, also in
    loader workers that live on from epoch to epoch.
    """

    def __init__(self, inner: Any, rank: int, world_size: int, *, training: bool) -> None:
        self._inner, self._rank, self._world_size, self._training = inner, rank, world_size, training
        tells = callable(getattr(inner, "set_epoch", None))
        self._epoch = torch.zeros((), dtype=torch.int64) if tells else None
        if self._epoch is not None:
            self._epoch.share_memory_()  # type: ignore[no-untyped-call]  # torch leaves it untyped

    @property
    def wants_epoch(self) -> bool:
        return self._epoch is not None

    def set_epoch(self, epoch: int) -> None:
        if self._epoch is not None:
            self._epoch.fill_(epoch)

    def __iter__(self) -> Iterator[Any]:
        if self._epoch is not None:
            self._inner.set_epoch(int(self._epoch))
        spare: Any = None
        has_own = False
        count = 0
        for item in self._inner:
            if count % self._world_size == self._rank:
                has_own, spare = True, item
                yield item
            elif not has_own:
                spare = item
            count += 1
        left_over = count % self._world_size
        if self._training and 0 < left_over <= self._rank:
            yield spare

    def __len__(self) -> int:
        return len(Shard(len(self._inner), self._rank, self._world_size, "pad" if self._training else "keep"))

    def __getattr__(self, name: str) -> Any:
        if name in _OWN:  # not there yet: a copy or an unpickled object is being filled
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self._inner, name, value)
