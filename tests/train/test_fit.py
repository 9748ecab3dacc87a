"""A fit gives the numbers of one process, on any number of ranks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from train_examples import Alone, Line, Seen, epoch_series, fit_here, index_loader, line_loader, step_series

from gpulayer_nb.train.plain import PlainTask


@pytest.mark.parametrize(("batch_size", "weight"), [(2, 1.779), (4, 1.02)])
def test_two_ranks_equal_one_process_with_the_global_batch_and_the_same_rate(ranks: Any, batch_size: int, weight: float) -> None:
    def train(rank: Any) -> float:
        model = Line()
        fit_here(rank, model, line_loader(batch_size))
        return float(model.w)

    on_two = ranks(2, train)
    assert on_two[0] == on_two[1]
    assert on_two[0] == pytest.approx(weight, abs=1e-3)


def test_accumulated_batches_equal_one_large_batch(ranks: Any) -> None:
    def train(rank: Any) -> float:
        model = Line()
        fit_here(rank, model, line_loader(2), accumulate_grad_batches=2)
        return float(model.w)

    assert ranks(2, train) == pytest.approx([1.02, 1.02], abs=1e-6)
