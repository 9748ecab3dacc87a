"""Which positions of an epoch's order belong to which rank.

Runs anywhere. Owns the dealing rule and its three ways to treat the remainder. Must not know data loaders or torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpulayer_nb.errors import UsageError

Remainder = Literal["pad", "drop", "keep"]


@dataclass(frozen=True)
class Shard:
    """One rank's part of `length` positions: every `world_size`-th, starting at `rank`.

    With this rule the k-th batches of all ranks together are the k-th batch of one process with the global batch size.

    Args:
        length: number of positions in the whole order.
        remainder: "pad" repeats the first positions until every rank has as many (torch's rule for training);
            "drop" leaves out the last ones until every rank has as many; "keep" deals each position exactly once,
            so the last ranks may have one less, or none.

    Raises:
        UsageError: the rank does not exist, or the length is negative.
    """

    length: int
    rank: int
    world_size: int
    remainder: Remainder = "pad"

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise UsageError(f"rank {self.rank} does not exist: the ranks are 0 to {self.world_size - 1}.")
        if self.length < 0:
            raise UsageError(f"a length of {self.length} cannot be divided; it is at least 0.")

    @property
    def total(self) -> int:
        """Positions dealt out over all ranks, repeated ones included."""
        if self.remainder == "pad":
            return -(-self.length // self.world_size) * self.world_size
        if self.remainder == "drop":
            return self.length // self.world_size * self.world_size
        return self.length

    @property
    def repeated(self) -> int:
        """How many positions are dealt out a second time, over all ranks."""
        return max(0, self.total - self.length)

    def positions(self) -> range:
        """This rank's positions. One at or beyond `length` means position `p % length` (a repeated one)."""
        return range(self.rank, self.total, self.world_size)

    def __len__(self) -> int:
        return len(self.positions())
