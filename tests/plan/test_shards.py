"""Positions are dealt out so that nothing is lost and ranks stay in step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.shards import Shard

lengths = st.integers(0, 200)
sizes = st.integers(1, 17)


def dealt(length: int, world_size: int, remainder: str) -> list[list[int]]:
    shards = [Shard(length, rank, world_size, remainder) for rank in range(world_size)]  # type: ignore[arg-type]
    return [[p % length if length else p for p in shard.positions()] for shard in shards]


@given(lengths, sizes)
def test_keep_deals_every_position_exactly_once(length: int, world_size: int) -> None:
    parts = dealt(length, world_size, "keep")
    assert sorted(p for part in parts for p in part) == list(range(length))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(lengths, sizes)
def test_pad_gives_every_rank_as_many_and_loses_none(length: int, world_size: int) -> None:
    parts = dealt(length, world_size, "pad")
    assert len({len(part) for part in parts}) == 1
    assert {p for part in parts for p in part} == set(range(length))
    assert sum(map(len, parts)) - length == Shard(length, 0, world_size, "pad").repeated < max(1, world_size)


@given(lengths, sizes)
def test_drop_gives_every_rank_as_many_and_repeats_none(length: int, world_size: int) -> None:
    parts = dealt(length, world_size, "drop")
    assert len({len(part) for part in parts}) == 1
    used = [p for part in parts for p in part]
    assert len(used) == len(set(used))
    assert length - len(used) < world_size


@given(st.integers(1, 60), st.integers(1, 6), st.integers(1, 5))
def test_the_kth_batches_of_all_ranks_are_the_kth_global_batch(length: int, world_size: int, batch: int) -> None:
    parts = dealt(length, world_size, "keep")
    for start in range(0, length, batch * world_size):
        k = start // world_size
        together = sorted(p for part in parts for p in part[k : k + batch])
        assert together == list(range(start, min(length, start + batch * world_size)))


def test_seven_samples_on_three_ranks_repeat_the_first_two() -> None:
    assert dealt(7, 3, "pad") == [[0, 3, 6], [1, 4, 0], [2, 5, 1]]


def test_a_rank_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="rank 4 does not exist: the ranks are 0 to 3"):
        Shard(10, 4, 4)


def test_a_thousand_ranks_are_divided_at_once() -> None:
    shards = [Shard(10**9, rank, 1024, "pad") for rank in range(1024)]
    assert sum(len(shard) for shard in shards) == shards[0].total
