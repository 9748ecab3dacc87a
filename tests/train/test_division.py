"""Divided loaders under a real fit: what the ranks really saw, over all epochs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler, WeightedRandomSampler
from train_examples import Numbers, Seen, fit_here, index_loader


def seen(rank: Any, loader: Any, **options: Any) -> list[list[float]]:
    model = Seen()
    fit_here(rank, model, loader, **options)
    return model.batches


def epochs_of(results: list[list[list[float]]], epochs: int) -> list[list[float]]:
    """The samples of each epoch over all ranks."""
    found = []
    for epoch in range(epochs):
        parts = [own[epoch * len(own) // epochs : (epoch + 1) * len(own) // epochs] for own in results]
        found.append([x for part in parts for batch in part for x in batch])
    return found


@pytest.mark.parametrize("world_size", [2, 4])
def test_a_shuffled_loader_gives_a_partition_in_another_order_each_epoch(ranks: Any, world_size: int) -> None:
    def train(rank: Any, seed: int) -> Any:
        return seen(rank, index_loader(8, 2, shuffle=True), max_epochs=3, seed=seed)

    first = epochs_of(ranks(world_size, lambda rank: train(rank, 0)), 3)
    assert [sorted(epoch) for epoch in first] == [list(range(8))] * 3
    assert first[0] != first[1] != first[2] != first[0]
    assert epochs_of(ranks(world_size, lambda rank: train(rank, 0)), 3) == first
    assert epochs_of(ranks(world_size, lambda rank: train(rank, 7)), 3) != first


def test_a_loader_in_order_stays_in_order_in_every_epoch(ranks: Any) -> None:
    for rank, expected in enumerate([[0, 3, 6], [1, 4, 0], [2, 5, 1]]):
        assert [b[0] for b in ranks(3, lambda r: seen(r, index_loader(7, 1), max_epochs=3))[rank]] == expected * 3


@pytest.mark.parametrize("world_size", [2, 4])
def test_weighted_draws_stay_weighted_and_are_shared_out(ranks: Any, world_size: int) -> None:
    def train(rank: Any) -> Any:
        weights = [1 / 90] * 90 + [1 / 10] * 10
        torch.manual_seed(rank.rank)  # a rank's own numbers do not matter
        return seen(rank, DataLoader(Numbers(100), batch_size=10, sampler=WeightedRandomSampler(weights, 1000)), seed=3)

    results = [[x for batch in own for x in batch] for own in ranks(world_size, train)]
    assert [len(own) for own in results] == [1000 // world_size] * world_size
    assert 0.45 < sum(x >= 90 for own in results for x in own) / 1000 < 0.55


@pytest.mark.parametrize("world_size", [2, 4])
def test_a_generator_that_every_rank_seeded_for_itself_still_divides(ranks: Any, world_size: int) -> None:
    def train(rank: Any) -> Any:
        generator = torch.Generator().manual_seed(100 + rank.rank)
        return seen(rank, DataLoader(Numbers(8), batch_size=1, sampler=RandomSampler(Numbers(8), generator=generator)))

    assert sorted(epochs_of(ranks(world_size, train), 1)[0]) == list(range(8))


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_groups_and_ready_made_batches_stay_whole(ranks: Any, world_size: int, num_workers: int) -> None:
    groups = [[0, 1], [2, 3], [4, 5], [6, 7]]
    results = ranks(world_size, lambda r: seen(r, DataLoader(Numbers(8), batch_sampler=groups, num_workers=num_workers)))
    assert sorted(batch for own in results for batch in own) == groups
    rows = torch.arange(12.0).reshape(4, 3)
    results = ranks(world_size, lambda r: seen(r, DataLoader(rows, batch_size=None, num_workers=num_workers)))  # type: ignore[arg-type]
    assert sorted(batch for own in results for batch in own) == rows.tolist()
    assert {len(own) for own in results} == {4 // world_size}


@pytest.mark.parametrize("world_size", [2, 4])
def test_workers_that_live_on_are_told_the_epoch_and_end_with_the_fit(ranks: Any, world_size: int) -> None:
    def train(rank: Any) -> Any:
        import multiprocessing

        options = {"shuffle": True, "num_workers": 2, "persistent_workers": True}
        return seen(rank, index_loader(8, 1, **options), max_epochs=3, seed=0), len(multiprocessing.active_children())

    results = ranks(world_size, train)
    assert {left for _, left in results} == {0}
    orders = epochs_of([own for own, _ in results], 3)
    assert [sorted(order) for order in orders] == [list(range(8))] * 3
    assert orders[0] != orders[1] != orders[2]
