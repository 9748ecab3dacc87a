"""Data that has no indices: every item once over all ranks, lengths known or not, and nobody waits for a rank that ran out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from train_examples import Seen, fit_here, notices

from gpulayer_nb.errors import UsageError
from gpulayer_nb.records.record import FitStarted


class Stream(IterableDataset[torch.Tensor]):
    """0, 1, 2, …; loader workers share them out, as torch's documentation asks for. Epoch e adds 100 · e."""

    def __init__(self, length: int) -> None:
        self.length, self.epoch = length, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return iter(torch.arange(float(first), float(self.length), step) + 100 * self.epoch)


class Counted(Stream):
    def __len__(self) -> int:
        return self.length


def items(model: Seen) -> list[float]:
    return [x for batch in model.batches for x in batch]


@pytest.mark.parametrize("world_size", [2, 3, 4])
@pytest.mark.parametrize(("num_workers", "length"), [(0, 12), (2, 24)])
def test_a_streams_items_come_once_over_all_ranks(ranks: Any, world_size: int, num_workers: int, length: int) -> None:
    def train(rank: Any) -> Any:
        model = Seen()
        _, records = fit_here(rank, model, DataLoader(Stream(length), batch_size=2, num_workers=num_workers))
        return items(model), notices(records)

    results = ranks(world_size, train)
    assert sorted(x for own, _ in results for x in own) == list(range(length))
    assert {len(own) for own, _ in results} == {length // world_size}
    assert results[0][1][0].startswith(f"Stream is a stream: rank r takes items r, r + {world_size}, …")


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_stream_is_told_the_epoch_also_in_workers_that_live_on(ranks: Any, world_size: int, num_workers: int) -> None:
    def train(rank: Any) -> list[float]:
        model = Seen()
        loader = DataLoader(Stream(4), batch_size=2, num_workers=num_workers, persistent_workers=num_workers > 0)
        fit_here(rank, model, loader, max_epochs=3)
        return items(model)

    seen = sorted(x for own in ranks(world_size, train) for x in own)
    assert seen == [100.0 * epoch + k for epoch in range(3) for k in range(4)]


@pytest.mark.parametrize("world_size", [2, 4])
def test_a_stream_of_known_length_has_counts_and_shares(ranks: Any, world_size: int) -> None:
    def train(rank: Any) -> Any:
        model = Seen()
        loader = DataLoader(Counted(16), batch_size=1)
        _, records = fit_here(rank, model, loader, DataLoader(Counted(13), batch_size=2), limit_train_batches=0.5)
        started = next((r for r in records if isinstance(r, FitStarted)), None)
        return len(model.batches), started and (started.batches_per_epoch, started.train_samples, started.val_samples)

    results = ranks(world_size, train)
    assert [batches for batches, _ in results] == [8 // world_size] * world_size
    assert results[0][1] == (8 // world_size, 16, 13)


class SaysSix:
    """Says that it has 6 batches; rank r has 6 − r."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def __len__(self) -> int:
        return 6

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (torch.tensor([float(k)]) for k in range(6 - self.rank))


class Shorter(Counted):
    """Says 8 and gives 8 on rank 0, fewer elsewhere."""

    def __init__(self, rank: int) -> None:
        super().__init__(8)
        self.rank = rank

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.arange(8.0 - 2 * self.rank))


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("kind", ["iterable", "divided stream"])
def test_a_length_that_is_not_kept_is_an_error_on_all_ranks_and_no_hang(errors_of: Any, kind: str, world_size: int) -> None:
    def train(rank: Any) -> Any:
        if kind == "iterable":
            return fit_here(rank, Seen(), SaysSix(rank.rank))
        return fit_here(rank, Seen(), DataLoader(Shorter(rank.rank), batch_size=1), use_distributed_sampler=False)

    for error in errors_of(world_size, train, seconds=15):
        assert isinstance(error, UsageError)
        assert "Every rank needs as many batches" in str(error)
        assert f"rank{'s' if world_size > 2 else ''} " in str(error)


@pytest.mark.parametrize("world_size", [2, 4])
def test_ready_made_batches_of_a_stream_go_to_one_rank_whole(ranks: Any, world_size: int) -> None:
    class Ready(IterableDataset[torch.Tensor]):
        def __iter__(self) -> Iterator[torch.Tensor]:
            return iter(torch.arange(12.0).reshape(4, 3))

    def train(rank: Any) -> Any:
        model = Seen()
        fit_here(rank, model, DataLoader(Ready(), batch_size=None))
        return model.batches

    batches = [batch for own in ranks(world_size, train) for batch in own]
    assert sorted(batches) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
