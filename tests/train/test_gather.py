"""Metrics that are no means: gathered values, objects with a state of their own, and the warning where a mean misleads."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from train_examples import Line, Seen, epoch_series, fit_here, index_loader, notices, step_series


class Gathers(Seen):
    def validation_step(self, batch: Tensor, batch_idx: int) -> None:
        self.val_batches.append(batch)  # type: ignore[arg-type]

    def on_validation_epoch_end(self) -> None:
        mine = torch.cat(self.val_batches) if self.val_batches else torch.zeros(0)  # type: ignore[arg-type]
        everything = self.trainer.gather({"value": mine, "rank": [self.global_rank] * len(mine), "pair": (1, mine[:1])})
        self.log("val_median", everything["value"].sort().values[len(everything["value"]) // 2])
        self.log("val_count", len(everything["rank"]))
        self.seen = sorted(everything["value"].tolist()), everything["rank"], everything["pair"][0].tolist()


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_every_rank_has_the_values_of_all_also_where_some_have_none(ranks: Any, world_size: int) -> None:
    def train(rank: Any) -> Any:
        model = Gathers()
        _, records = fit_here(rank, model, index_loader(4, 1), index_loader(3, 2))
        return model.seen, epoch_series(records, "val", "val_median"), epoch_series(records, "val", "val_count")

    results = ranks(world_size, train)
    for (values, from_ranks, ones), _, _ in results:
        assert values == [0.0, 1.0, 2.0]
        assert from_ranks == sorted(k % world_size for k in range(3))
        assert ones == [1] * world_size
    assert results[0][1:] == ([1.0], [3.0])


def test_gathering_in_a_step_where_ranks_may_have_other_numbers_of_batches_is_refused(errors_of: Any) -> None:
    class Eager(Seen):
        def validation_step(self, batch: Tensor, batch_idx: int) -> None:
            self.trainer.gather(batch)

    errors = errors_of(2, lambda rank: fit_here(rank, Eager(), index_loader(4, 1), index_loader(3, 1)))
    assert ["gather was called in a step of a validation" in str(error) for error in errors] == [True, True]


def test_a_mean_of_f1_over_batches_is_warned_of_once_and_a_loss_is_not(ranks: Any) -> None:
    class Scores(Seen):
        def validation_step(self, batch: Tensor, batch_idx: int) -> None:
            self.log_dict({"val_f1": 0.5, "val_loss": 1.0, "val_features": 2.0})

    def train(rank: Any) -> list[str]:
        return notices(fit_here(rank, Scores(), index_loader(4, 1), index_loader(4, 1), max_epochs=2)[1])

    (text,) = ranks(2, train)[0]
    assert text.startswith("val_f1 is the mean over batches") and "self.trainer.gather" in text


@pytest.mark.slow  # with the real package, which plain tests can do without
def test_a_torchmetrics_object_has_the_value_of_all_samples_on_every_rank(ranks: Any) -> None:
    """F1 over all samples is another number than the mean of the batches' F1; one rank has no batch at all."""

    def train(rank: Any) -> Any:
        from torchmetrics.classification import BinaryF1Score

        class Classifier(Line):
            def __init__(self) -> None:
                super().__init__()
                self.f1, self.train_f1 = BinaryF1Score(), BinaryF1Score()

            def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
                self.train_f1(torch.ones(len(batch)), (batch < 2).long())
                self.log("f1", self.train_f1)
                return (self.w * batch).mean()

            def validation_step(self, batch: Tensor, batch_idx: int) -> None:
                self.f1.update((batch < 2).float(), (batch < 1).long())  # right but for the 1
                self.log("val_f1", self.f1)

        result, records = fit_here(rank, Classifier(), index_loader(4, 1), index_loader(3, 1), max_epochs=2)
        return result.metrics, step_series(records, "f1"), notices(records)

    results = ranks(4, train)
    for metrics, _, _ in results:
        assert metrics["val_f1"] == pytest.approx(2 / 3)
        assert metrics["f1"] == pytest.approx(2 / 3), "two of four are predicted rightly, two wrongly"
    assert results[0][1] == [0.5, 0.5]
    assert results[0][2] == [], "nothing is averaged, so nothing is warned of"
