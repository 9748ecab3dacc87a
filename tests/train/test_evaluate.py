"""Validation, test and prediction see every sample once and give the numbers, and the order, of one process."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from train_examples import CPU, Alone, Line, Seen, index_loader

from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.topology import RankPlace
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.records.record import EpochMetrics
from gpulayer_nb.train.data_module import DataModule
from gpulayer_nb.train.evaluate import evaluate
from gpulayer_nb.train.predict import predict


def place(rank: Any) -> dict[str, Any]:
    own = RankPlace(rank.rank, rank.rank // rank.devices, rank.rank % rank.devices)
    return {
        "options": FitOptions(), "place": own, "world_size": rank.world_size, "devices_per_node": rank.devices, "device": CPU,
    }  # fmt: skip


class Probed(Seen):
    def test_step(self, batch: Tensor, batch_idx: int) -> None:
        self.log("test_index", batch.mean())

    def predict_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        return batch * 10 + self.w


def test_a_test_is_exact_on_four_ranks_and_reported_as_such(ranks: Any) -> None:
    def test(rank: Any) -> Any:
        records: list[Any] = []
        result = evaluate(Probed(), index_loader(10, 2), split="test", report=records.append, **place(rank))
        return result, [(r.split, r.samples) for r in records if isinstance(r, EpochMetrics)]

    results = ranks(4, test)
    assert [r.metrics for r, _ in results] == [{"test_index": 4.5}] * 4
    assert results[0][1] == [("test", 10)]


def test_a_validation_uses_rank_zeros_weights_on_all(ranks: Any) -> None:
    class Weighted(Seen):
        def validation_step(self, batch: Tensor, batch_idx: int) -> None:
            self.log("val_w", self.w.sum())

    def validate(rank: Any) -> float:
        model = Weighted()
        model.w.data.fill_(7.0 + rank.rank)
        return evaluate(model, index_loader(4, 1), split="val", **place(rank)).metrics["val_w"]

    assert ranks(2, validate) == [7.0, 7.0]


def test_predictions_come_back_on_rank_zero_batch_by_batch_in_order(ranks: Any) -> None:
    results = ranks(3, lambda rank: predict(Probed(), index_loader(11, 2), **place(rank)))
    alone = predict(Probed(), index_loader(11, 2), **place(Alone))
    assert (
        [b.tolist() for b in results[0]]
        == [b.tolist() for b in alone]
        == [[0, 10], [20, 30], [40, 50], [60, 70], [80, 90], [100]]
    )
    assert results[1:] == [[], []]


def test_a_plain_model_predicts_with_its_forward_and_stays_in_its_mode() -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.5))
    model[0].weight.data.fill_(2.0)
    model[0].bias.data.fill_(0.0)
    (prediction,) = predict(model, [torch.ones(2, 1)], **place(Alone))
    assert prediction.tolist() == [[2.0], [2.0]]
    assert not prediction.requires_grad
    assert model.training
    assert model[1].training


def test_a_stopped_validation_has_no_means(ranks: Any) -> None:
    def validate(rank: Any) -> Any:
        return evaluate(Seen(), index_loader(40, 1), split="val", should_stop=lambda: rank.rank == 1, **place(rank))

    assert [(r.state, r.metrics) for r in ranks(2, validate)] == [("stopped", {})] * 2


def test_a_step_that_is_missing_or_a_loader_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match=r"Line has no test_step\(batch, batch_idx\)"):
        evaluate(Line(), index_loader(2, 1), split="test", **place(Alone))
    with pytest.raises(UsageError, match="there is no loader: give one, or a datamodule whose test_dataloader"):
        evaluate(Probed(), split="test", **place(Alone))


def test_a_data_module_gives_the_loader_of_the_split() -> None:
    class Data(DataModule):
        def setup(self, stage: str) -> None:
            self.stage = stage

        def test_dataloader(self) -> Any:
            return index_loader(5, 2)

    data = Data()
    assert evaluate(Probed(), split="test", datamodule=data, **place(Alone)).metrics == {"test_index": 2.0}
    assert data.stage == "test"
