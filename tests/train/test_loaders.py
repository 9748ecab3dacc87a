"""A loader is divided without losing, doubling or reordering what its user asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from train_examples import Numbers, index_loader

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.loaders import divide


def batches(loader: Any, world_size: int, *, training: bool = True, epoch: int = 0, **options: Any) -> list[list[Any]]:
    """Each rank's batches of an epoch, as lists."""
    parts = [divide(loader, rank, world_size, training=training, **options) for rank in range(world_size)]
    return [[batch.tolist() for batch in part.epoch(epoch)] for part in parts]


def indices(loader: Any, world_size: int, **options: Any) -> list[list[int]]:
    parts = batches(loader, world_size, **options)
    return [[int(i) for batch in part for i in (batch if isinstance(batch, list) else [batch])] for part in parts]


def test_shuffled_orders_are_those_of_torchs_distributed_sampler() -> None:
    loader = index_loader(8, 2, shuffle=True)
    epochs = [indices(loader, 2, epoch=epoch, seed=0) for epoch in range(3)]
    assert epochs == [
        [[4, 7, 2, 1], [0, 3, 5, 6]],
        [[5, 2, 7, 1], [4, 6, 3, 0]],
        [[0, 7, 6, 1], [4, 2, 5, 3]],
    ]


def test_another_seed_gives_another_order_and_the_same_seed_the_same() -> None:
    loader = index_loader(8, 2, shuffle=True)
    assert indices(loader, 2, seed=7) != indices(loader, 2, seed=0)
    assert indices(loader, 2, seed=7) == indices(loader, 2, seed=7)


def test_a_samplers_own_generator_gives_the_seed_too() -> None:
    def parts(seed: int) -> list[list[int]]:
        generator = torch.Generator().manual_seed(seed)
        return indices(DataLoader(Numbers(8), batch_size=2, sampler=RandomSampler(Numbers(8), generator=generator)), 2)

    assert parts(5) == indices(index_loader(8, 2, shuffle=True), 2, seed=5) != parts(6)

    def groups(seed: int) -> list[list[Any]]:
        drawn = RandomSampler(Numbers(8), generator=torch.Generator().manual_seed(seed))
        return batches(DataLoader(Numbers(8), batch_sampler=BatchSampler(drawn, 2, False)), 2)

    assert groups(5) == groups(5) != groups(6)


def test_without_an_option_the_loaders_generator_gives_the_seed() -> None:
    loader = index_loader(8, 2, shuffle=True, generator=torch.Generator().manual_seed(5))
    assert indices(loader, 2) == indices(index_loader(8, 2, shuffle=True), 2, seed=5)


def test_without_shuffle_the_order_is_that_of_the_data_in_every_epoch() -> None:
    loader = index_loader(7, 1)
    for epoch in range(3):
        assert indices(loader, 3, epoch=epoch) == [[0, 3, 6], [1, 4, 0], [2, 5, 1]]


def test_a_sampler_over_a_part_of_the_data_set_does_not_leave_it() -> None:
    loader = DataLoader(Numbers(100), batch_size=1, sampler=SequentialSampler(range(4)))
    assert indices(loader, 2) == [[0, 2], [1, 3]]


def test_drop_last_leaves_whole_batches_of_distinct_samples() -> None:
    assert batches(index_loader(11, 2, drop_last=True), 4) == [[[r, r + 4]] for r in range(4)]
    assert batches(index_loader(11, 2, drop_last=True), 2) == [[[r, r + 2], [r + 4, r + 6]] for r in range(2)]


def test_validation_counts_every_sample_once_and_some_ranks_may_have_none() -> None:
    assert batches(index_loader(11, 2), 4, training=False) == [[[0, 4], [8]], [[1, 5], [9]], [[2, 6], [10]], [[3, 7]]]
    assert batches(index_loader(3, 1), 4, training=False) == [[[0]], [[1]], [[2]], []]


def test_fewer_training_samples_than_ranks_are_repeated_and_it_is_said() -> None:
    part = divide(index_loader(3, 1), 3, 4, training=True)
    assert [b.tolist() for b in part.epoch(0)] == [[0]]
    assert part.notices == ("3 training samples for 4 ranks: some are used twice in each step, so that every rank has one.",)
    assert divide(index_loader(8, 1), 0, 4, training=True).notices == ()


@pytest.mark.parametrize("world_size", [2, 4])
def test_weighted_draws_are_kept_and_divided(world_size: int) -> None:
    weights = [1 / 90] * 90 + [1 / 10] * 10
    loader = DataLoader(Numbers(100), batch_size=10, sampler=WeightedRandomSampler(weights, 1000))
    parts = indices(loader, world_size, seed=3)
    assert [len(part) for part in parts] == [1000 // world_size] * world_size
    assert len({tuple(part) for part in parts}) == world_size, "every rank has other draws"
    share = sum(i >= 90 for part in parts for i in part) / 1000
    assert 0.45 < share < 0.55
    assert indices(loader, world_size, seed=3) == parts
    assert indices(loader, world_size, seed=3, epoch=1) != parts


def test_groups_of_a_batch_sampler_stay_whole_and_each_goes_to_one_rank() -> None:
    groups = [[0, 1], [2, 3], [4, 5], [6, 7]]
    loader = DataLoader(Numbers(8), batch_sampler=groups)
    assert batches(loader, 2) == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    assert batches(loader, 4) == [[group] for group in groups]
    assert batches(DataLoader(Numbers(8), batch_sampler=groups[:3]), 2) == [[[0, 1], [4, 5]], [[2, 3], [0, 1]]]
    assert batches(DataLoader(Numbers(8), batch_sampler=groups[:3]), 2, training=False) == [[[0, 1], [4, 5]], [[2, 3]]]


def test_ready_made_batches_keep_their_shape() -> None:
    rows = torch.arange(12.0).reshape(4, 3)
    parts = batches(DataLoader(rows, batch_size=None), 2)  # type: ignore[arg-type]
    assert parts == [[[0, 1, 2], [6, 7, 8]], [[3, 4, 5], [9, 10, 11]]]
    assert sum(x for part in parts for batch in part for x in batch) == 66
    assert batches(DataLoader(rows, batch_size=None), 4) == [[row] for row in rows.tolist()]  # type: ignore[arg-type]


class Stream(IterableDataset[torch.Tensor]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.arange(float(self.length)))


def test_a_stream_is_dealt_out_item_by_item() -> None:
    parts = indices(DataLoader(Stream(12), batch_size=2), 3)
    assert parts == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]


def test_a_stream_that_does_not_divide_gives_every_rank_as_many_in_training_and_each_item_once_in_validation() -> None:
    loader = DataLoader(Stream(13), batch_size=2)
    assert [len(part) for part in indices(loader, 3)] == [5, 5, 5]
    assert sorted(i for part in indices(loader, 3, training=False) for i in part) == list(range(13))
    assert [len(part) for part in indices(DataLoader(Stream(2), batch_size=2), 4)] == [1, 1, 1, 1]


def test_a_stream_says_how_it_is_divided_and_passes_attributes_through() -> None:
    part = divide(DataLoader(Stream(4), batch_size=2), 0, 2, training=True)
    assert "Stream is a stream: rank r takes items r, r + 2" in part.notices[0]
    assert part.source.dataset.length == 4
    part.source.dataset.length = 2
    assert [b.tolist() for b in part.epoch(0)] == [[0.0]]


class Backwards(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        return iter([5, 4, 3, 2, 1, 0])

    def __len__(self) -> int:
        return 6


def test_a_custom_sampler_keeps_its_order() -> None:
    assert indices(DataLoader(Numbers(6), batch_size=1, sampler=Backwards()), 2) == [[5, 3, 1], [4, 2, 0]]


def test_a_subset_is_divided_without_leaving_it() -> None:
    loader = DataLoader(Numbers(100), batch_size=2, sampler=SubsetRandomSampler([10, 20, 30, 40]))
    parts = indices(loader, 2, seed=1)
    assert sorted(parts[0] + parts[1]) == [10, 20, 30, 40]
    assert parts == indices(loader, 2, seed=1)


def test_random_sampling_with_replacement_is_not_turned_into_a_permutation() -> None:
    loader = DataLoader(Numbers(4), batch_size=2, sampler=RandomSampler(Numbers(4), replacement=True, num_samples=40))
    parts = indices(loader, 2)
    assert [len(part) for part in parts] == [20, 20]


class NumpySampler(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        return iter([int(i) for i in np.random.permutation(6)])

    def __len__(self) -> int:
        return 6


def test_a_sampler_that_draws_from_numpy_is_seeded_equally_and_the_callers_numbers_go_on() -> None:
    loader = DataLoader(Numbers(6), batch_size=1, sampler=NumpySampler())
    np.random.seed(3)
    expected = np.random.rand()
    np.random.seed(3)
    parts = indices(loader, 3)
    assert sorted(i for part in parts for i in part) == list(range(6))
    assert np.random.rand() == expected


class Endless(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        while True:
            yield 0


def test_a_sampler_without_a_length_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"Endless has no length, .*__len__.*use_distributed_sampler=False"):
        divide(DataLoader(Numbers(6), batch_size=1, sampler=Endless()), 0, 2, training=True)


def test_orders_that_differ_between_ranks_are_refused_before_a_batch() -> None:
    part = divide(DataLoader(Numbers(6), batch_size=1, sampler=Backwards()), 0, 2, training=True, agree=lambda digest: False)
    with pytest.raises(UsageError, match="Backwards draws another order on each rank"):
        next(part.epoch(0))


def test_the_users_own_distributed_sampler_is_kept_and_told_the_epoch() -> None:
    def loader(rank: int) -> DataLoader[Any]:
        data = Numbers(8)
        return DataLoader(data, batch_size=2, sampler=DistributedSampler(data, 2, rank, shuffle=True, seed=0))

    part = divide(loader(0), 0, 2, training=True)
    assert [int(i) for b in part.epoch(1) for i in b] == [5, 2, 7, 1]
    with pytest.raises(UsageError, match="DistributedSampler is for rank 0 of 2, but this is rank 3 of 4"):
        divide(loader(0), 3, 4, training=True)


def test_everything_else_of_the_loader_is_kept_and_the_users_own_is_not_changed() -> None:
    class Special(DataLoader[Any]):
        pass

    def collate(items: list[Any]) -> Any:
        return torch.stack(items) * 10

    def start(worker: int) -> None:
        pass

    loader = Special(
        Numbers(8), batch_size=2, shuffle=True, num_workers=2, collate_fn=collate, timeout=30, worker_init_fn=start,
        prefetch_factor=3, persistent_workers=True, drop_last=True,
    )  # fmt: skip
    before = dict(loader.__dict__)
    own = divide(loader, 0, 2, training=True).source
    assert type(own) is Special
    assert own is not loader
    kept = "num_workers collate_fn timeout worker_init_fn prefetch_factor persistent_workers batch_size drop_last"
    for name in kept.split():
        assert getattr(own, name) == getattr(loader, name), name
    assert loader.__dict__ == before
    assert type(loader.sampler) is RandomSampler


def test_use_distributed_sampler_off_takes_the_loader_as_it_is() -> None:
    loader = index_loader(6, 2)
    assert divide(loader, 1, 2, training=True, replace_sampler=False).source is loader


def test_an_iterable_that_is_no_loader_is_read_as_it_is_and_it_is_said() -> None:
    part = divide([torch.zeros(2)], 0, 2, training=True)
    assert "the training loader is a list, not a torch DataLoader, so it is not divided" in part.notices[0]
    with pytest.raises(UsageError, match="the training loader is a int, which cannot be iterated"):
        divide(3, 0, 2, training=True)


def test_an_empty_data_set_is_refused() -> None:
    with pytest.raises(UsageError, match="data set is empty"):
        divide(DataLoader(Numbers(0), sampler=SequentialSampler(Numbers(0))), 0, 2, training=True)


def test_a_resumed_epoch_skips_batches_without_loading_them() -> None:
    loaded: list[int] = []

    class Watched(Numbers):
        def __getitem__(self, index: int) -> torch.Tensor:
            loaded.append(index)
            return super().__getitem__(index)

    part = divide(DataLoader(Watched(8), batch_size=2), 0, 2, training=True)
    assert [b.tolist() for b in part.epoch(0, skip_batches=1)] == [[4, 6]]
    assert loaded == [4, 6]
    assert len(list(part.epoch(1))) == 2


def test_limits_are_a_number_or_a_share_of_batches() -> None:
    part = divide(index_loader(40, 2), 0, 2, training=True)
    assert (part.batches, part.limited(3), part.limited(0.5), part.limited(99)) == (10, 3, 5, 10)
    assert len(list(part.epoch(0, limit=0.3))) == 3
    with pytest.raises(UsageError, match="a loader with a length"):
        divide(DataLoader(Stream(4)), 0, 2, training=True).limited(0.5)


def test_a_batch_sampler_of_torchs_own_kind_keeps_its_batches() -> None:
    loader = DataLoader(Numbers(8), batch_sampler=BatchSampler(SequentialSampler(Numbers(8)), 2, False))
    assert batches(loader, 2) == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]


class Noisy(Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([torch.rand(()).item(), float(np.random.rand())])


def test_a_loader_with_its_own_generator_gives_every_ranks_workers_other_noise() -> None:
    loader = DataLoader(Noisy(8), batch_size=2, num_workers=2, generator=torch.Generator().manual_seed(0))
    first = batches(loader, 2, worker_seed=1)
    assert first[0] != first[1]
    assert batches(loader, 2, worker_seed=1) == first
