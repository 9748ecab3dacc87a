"""The shape of a run: how many nodes, how many devices on each, and who is who.

Runs anywhere. Owns the arithmetic of ranks. Must not know processes, torch or Jupyter.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpulayer_nb.errors import UsageError

MAX_WORLD_SIZE = 4096  # beyond this an ipyparallel controller has never been seen to work


@dataclass(frozen=True, order=True)
class RankPlace:
    """One rank's place: global rank, node rank, rank within its node."""

    rank: int
    node_rank: int
    local_rank: int

    def __str__(self) -> str:
        return f"rank {self.rank} (node {self.node_rank}, local rank {self.local_rank})"


@dataclass(frozen=True)
class Topology:
    """`num_nodes` nodes with `devices` ranks each.

    Raises:
        UsageError: a size is not a whole number of at least 1.
    """

    num_nodes: int
    devices: int

    def __post_init__(self) -> None:
        for name, option in (("num_nodes", "--nodes"), ("devices", "--devices")):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"{option} is {value!r}; it is a whole number of at least 1, for example `{option} 2`.")
        if self.world_size > MAX_WORLD_SIZE:
            raise UsageError(
                f"{self.num_nodes} nodes × {self.devices} devices = {self.world_size} ranks; "
                f"at most {MAX_WORLD_SIZE} are supported."
            )

    @property
    def world_size(self) -> int:
        return self.num_nodes * self.devices

    def place(self, rank: int) -> RankPlace:
        """The place of a global rank: `rank = node_rank * devices + local_rank`."""
        if not 0 <= rank < self.world_size:
            raise UsageError(f"rank {rank} does not exist: the ranks are 0 to {self.world_size - 1}.")
        return RankPlace(rank, rank // self.devices, rank % self.devices)

    def places(self) -> tuple[RankPlace, ...]:
        return tuple(self.place(rank) for rank in range(self.world_size))

    def __str__(self) -> str:
        return f"{count(self.num_nodes, 'node')} × {count(self.devices, 'device')} = {count(self.world_size, 'rank')}"


def count(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
