"""One rank's part of a loader, epoch by epoch.

Runs in a rank. Owns the order of an epoch's beginning: the epoch is told, workers are seeded, batches done are left out. Must not
know how the part was cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.samplers import SkippingSampler
from gpulayer_nb.train.seed import mixed


@dataclass
class DividedLoader:
    """One rank's part of a loader.

    `batches` is how many batches this rank should have in an epoch, None if that is unknown; `exact` says that it has neither
    more nor fewer; `equal` that all ranks are sure to have as many; `samples` counts the data over all ranks, each sample once,
    None if unknown.
    """

    source: Any
    batch_size: int | None
    batches: int | None
    samples: int | None
    equal: bool
    exact: bool = True
    notices: tuple[str, ...] = ()
    _skipping: SkippingSampler | None = None
    _samplers: tuple[Any, ...] = ()
    _generator: torch.Generator | None = None
    _worker_seed: tuple[int, ...] = field(default=())

    def epoch(self, epoch: int, *, skip_batches: int = 0, limit: int | float | None = None) -> Iterator[Any]:
        """The batches of one epoch, in the order of that epoch.

        Args:
            skip_batches: leave out the first ones (a resumed epoch).
            limit: stop after so many batches (int) or that share of them (float).
        """
        for sampler in self._samplers:
            sampler.set_epoch(epoch)
        if self._generator is not None:
            self._generator.manual_seed(mixed(*self._worker_seed, epoch))
        if self._skipping is not None:
            self._skipping.skip = skip_batches
        batches = iter(self.source)
        if skip_batches and self._skipping is None:
            batches = islice(batches, skip_batches, None)
        most = self.limited(limit)
        return batches if limit is None or most is None else islice(batches, max(0, most - skip_batches))

    def limited(self, limit: int | float | None) -> int | None:
        """Batches of an epoch under a limit.

        Raises:
            UsageError: a share of a loader whose length is unknown.
        """
        return limited(limit, self.batches)


def limited(limit: int | float | None, batches: int | None) -> int | None:
    """Batches of a pass under a limit; `batches` is how many there are, None if unknown.

    Raises:
        UsageError: a share of a loader whose length is unknown.
    """
    if limit is None:
        return batches
    if isinstance(limit, float):
        if batches is None:
            raise UsageError(f"a limit of {limit} of the batches needs a loader with a length; give a number of batches.")
        return int(batches * limit)
    return limit if batches is None else min(limit, batches)
