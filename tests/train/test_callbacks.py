"""Callbacks decide the same on every rank, from the same means."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from train_examples import Alone, Line, Seen, fit_here, index_loader, line_loader, step_series

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.callbacks import Callback, EarlyStopping, LearningRateMonitor, ModelCheckpoint
from gpulayer_nb.train.hooks import Hooks


class Scores(Seen):
    def __init__(self, *scores: float) -> None:
        super().__init__()
        self.scores = scores

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("score", self.scores[self.current_epoch] + self.global_rank - 0.5 * (self.trainer.world_size - 1))


def test_early_stopping_ends_all_ranks_after_its_patience(ranks: Any) -> None:
    def train(rank: Any) -> Any:
        stopper = EarlyStopping("score", patience=2)
        model = Scores(3, 2, 2, 5, 1, 1)
        result, _ = fit_here(rank, model, index_loader(2, 1), index_loader(2, 1), max_epochs=6, callbacks=[stopper])
        return result.state, result.epochs_done, stopper.best_score, stopper.stopped_epoch

    assert ranks(2, train) == [("finished", 4, 2.0, 3)] * 2


def test_early_stopping_ends_at_nan_and_rests_in_epochs_without_validation() -> None:
    result, _ = fit_here(
        Alone, Scores(3, math.nan, 1), index_loader(2, 1), index_loader(2, 1), max_epochs=3, callbacks=[EarlyStopping("score")]
    )
    assert result.epochs_done == 2
    result, _ = fit_here(
        Alone, Scores(*[1.0] * 6), index_loader(2, 1), index_loader(2, 1), max_epochs=6, check_val_every_n_epoch=2,
        callbacks=[EarlyStopping("score", patience=2)],
    )  # fmt: skip
    assert result.epochs_done == 6


def test_a_metric_nobody_logs_is_named_with_those_there_are() -> None:
    expected = r"EarlyStopping looks at 'val_lss', which has not been logged\. Logged so far: index, val_index"
    with pytest.raises(UsageError, match=expected):
        fit_here(Alone, Seen(), index_loader(2, 1), index_loader(2, 1), callbacks=[EarlyStopping("val_lss")])
    with pytest.raises(UsageError, match="mode is 'best'; it is \"min\""):
        EarlyStopping("loss", mode="best")


def test_the_learning_rate_of_each_step_is_recorded() -> None:
    class Halving(Line):
        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.08)
            return [optimizer], [{"scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5), "interval": "step"}]

    result, records = fit_here(Alone, Halving(), line_loader(2), callbacks=[LearningRateMonitor()])
    assert step_series(records, "lr-SGD") == [0.08, 0.04, 0.02, 0.01]
    assert "lr-SGD" not in result.metrics


def test_only_overridden_hooks_are_called_and_an_exception_is_told() -> None:
    told: list[BaseException] = []

    class Watching(Callback):
        def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
            told.append(exception)

    hooks = Hooks(None, Line(), [Watching()])
    assert hooks.of("on_train_batch_end") == ()
    assert len(hooks.of_callbacks("on_exception")) == 1

    class Failing(Line):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fit_here(Alone, Failing(), line_loader(2), callbacks=[Watching()])
    assert [type(e) for e in told] == [ValueError]


def test_every_hook_of_a_callback_has_its_like_in_the_module() -> None:
    from gpulayer_nb.train.module import Module

    missing = [name for name in vars(Callback) if name.startswith("on_") and not hasattr(Module, name)]
    assert missing == ["on_exception"]


def test_a_callbacks_plain_attributes_are_in_the_result_of_rank_zero(ranks: Any, tmp_path: Any) -> None:
    class Remembers(Callback):
        def __init__(self) -> None:
            self.weights: list[Tensor] = []
            self.module: Any = None

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            self.weights.append(module.w)
            self.module = module

    def train(rank: Any) -> Any:
        given = [ModelCheckpoint(tmp_path, monitor="loss"), EarlyStopping("loss", patience=1, mode="max"), Remembers()]
        return fit_here(rank, Line(), line_loader(4), max_epochs=9, callbacks=given)[0].callbacks

    (saver, stopper, remembers), others = ranks(2, train)
    assert others == ()
    assert (saver["best_model_path"], saver["last_model_path"]) == (f"{tmp_path}/epoch=1-step=2.pt", f"{tmp_path}/last.pt")
    assert saver["best_model_score"] == pytest.approx(24.49, abs=0.01)
    assert (stopper["stopped_epoch"], stopper["wait_count"]) == (1, 1)
    assert [round(w.item(), 4) for w in remembers["weights"]] == [1.5198, 1.5198]
    assert not remembers["weights"][0].requires_grad
    assert "module" not in remembers


def test_a_second_fit_with_the_same_callbacks_begins_anew(tmp_path: Any) -> None:
    saver, stopper = ModelCheckpoint(monitor="loss"), EarlyStopping("loss", patience=1, mode="max")
    for name in ("first", "second"):
        folder = tmp_path / name
        result, _ = fit_here(Alone, Line(), line_loader(4), max_epochs=9, callbacks=[saver, stopper], checkpoint_dir=folder)
        assert (result.epochs_done, stopper.stopped_epoch) == (2, 1)
        assert saver.best_model_path.startswith(str(folder))
    assert sorted(p.name for p in (tmp_path / "first").iterdir()) == sorted(p.name for p in (tmp_path / "second").iterdir())
