"""Layers that are frozen, freed or replaced between epochs stay the same on every rank."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from train_examples import fit_here, index_loader

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.module import Module


class TwoLayers(Module):
    """The first layer is frozen at the start; `change(self)` is called at the start of every epoch, `within` at every batch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(1, 4), nn.Linear(4, 1)
        self.first.requires_grad_(False)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x = batch.reshape(-1, 1)
        return ((self.second(self.first(x)) - x) ** 2).mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.001)


class Thawing(TwoLayers):
    def on_train_epoch_start(self) -> None:
        self.first.requires_grad_(self.current_epoch >= 1)
        self.second.requires_grad_(self.current_epoch < 3)


class ThawingWithin(TwoLayers):
    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self.first.requires_grad_(batch_idx > 2)


def weights(rank: Any, batch_size: int, **options: Any) -> list[float]:
    model = Thawing()
    fit_here(rank, model, index_loader(16, batch_size), max_epochs=5, **options)
    return [x for p in model.parameters() for x in p.detach().flatten().tolist()]


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("options", [{}, {"find_unused_parameters": True}])
def test_a_layer_freed_between_epochs_trains_as_in_one_process(ranks: Any, world_size: int, options: dict[str, Any]) -> None:
    (alone,) = ranks(1, lambda rank: weights(rank, 8))
    for own in ranks(world_size, lambda rank: weights(rank, 8 // world_size, **options)):
        assert own == pytest.approx(alone, abs=1e-6)


def test_a_layer_freed_within_an_epoch_is_refused_where_ranks_would_drift_apart(errors_of: Any) -> None:
    for error in errors_of(2, lambda rank: fit_here(rank, ThawingWithin(), index_loader(16, 1)), seconds=20):
        assert isinstance(error, UsageError)
        assert "frozen, freed or added within an epoch" in str(error)
        assert "on_train_epoch_start" in str(error)
