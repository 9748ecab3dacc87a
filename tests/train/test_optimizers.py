"""What `configure_optimizers` may return, and when schedules step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from train_examples import Alone, Line, Seen, fit_here, index_loader, line_loader, step_series

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.optimizers import Optimization

LAYER = nn.Linear(1, 1)


def sgd() -> torch.optim.Optimizer:
    return torch.optim.SGD(LAYER.parameters(), lr=1.0)


def halving(optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)


def test_all_usual_forms_are_read() -> None:
    one, two = sgd(), sgd()
    rule = {"scheduler": halving(one), "interval": "step", "frequency": 3, "monitor": "loss"}
    assert Optimization.read(one).optimizers == (one,)
    assert Optimization.read([one, two]).optimizers == (one, two)
    both = Optimization.read(([one, two], [halving(one), rule]))
    assert both.optimizers == (one, two)
    assert [(r.interval, r.frequency) for r in both.rules] == [("epoch", 1), ("step", 3)]
    alone = Optimization.read({"optimizer": one, "lr_scheduler": rule})
    assert (alone.rules[0].interval, alone.rules[0].frequency, alone.rules[0].monitor) == ("step", 3, "loss")
    assert Optimization.read({"optimizer": one, "lr_scheduler": halving(one), "monitor": "acc"}).rules[0].monitor == "acc"
    assert len(Optimization.read([{"optimizer": one}, {"optimizer": two, "lr_scheduler": halving(two)}]).rules) == 1


@pytest.mark.parametrize(
    ("configured", "message"),
    [
        (None, "an optimizer is a NoneType, not a torch.optim.Optimizer; return an optimizer"),
        ([], "gave no optimizer"),
        (([], []), "gave no optimizer"),
        (lambda: {"optimizer": sgd(), "lr_scheduler": 3}, r"a scheduler is a int, which has no step\(\)"),
        (lambda: {"optimizer": sgd(), "lr_scheduler": {"scheduler": halving(sgd()), "interval": "batch"}}, "interval is 'batch'"),
        (lambda: {"optimizer": sgd(), "lr_scheduler": {"scheduler": halving(sgd()), "frequency": -1}}, "frequency is -1"),
    ],
)
def test_other_forms_are_refused_with_the_right_ones(configured: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Optimization.read(configured() if callable(configured) else configured)


def rate_after(configure: Any, epochs: int = 2, **options: Any) -> float:
    class Scheduled(Line):
        def configure_optimizers(self) -> Any:
            self.optimizer = torch.optim.SGD(self.parameters(), lr=1e-4)
            return configure(self.optimizer)

    model = Scheduled()
    fit_here(Alone, model, line_loader(2), max_epochs=epochs, **options)
    return float(model.optimizer.param_groups[0]["lr"]) / 1e-4


def test_schedules_step_by_epoch_or_by_step_at_their_frequency() -> None:
    assert rate_after(lambda o: ([o], [halving(o)])) == pytest.approx(0.5**2)
    assert rate_after(lambda o: ([o], [{"scheduler": halving(o), "interval": "step"}])) == pytest.approx(0.5**8)
    assert rate_after(lambda o: ([o], [{"scheduler": halving(o), "interval": "step", "frequency": 4}])) == pytest.approx(0.5**2)
    assert rate_after(lambda o: ([o], [{"scheduler": halving(o), "frequency": 2}]), epochs=5) == pytest.approx(0.5**2)
    by_step = rate_after(lambda o: ([o], [{"scheduler": halving(o), "interval": "step"}]), accumulate_grad_batches=2)
    assert by_step == pytest.approx(0.5**4)


def test_a_schedule_on_a_metric_sees_the_epochs_mean() -> None:
    class Flat(Seen):
        def __init__(self, monitor: str | None) -> None:
            super().__init__()
            self.monitor = monitor

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val_loss", 1.0)

        def configure_optimizers(self) -> Any:
            self.optimizer = torch.optim.SGD(self.parameters(), lr=1.0)
            plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer, factor=0.5, patience=0)
            return {"optimizer": self.optimizer, "lr_scheduler": {"scheduler": plateau, "monitor": self.monitor}}

    for monitor in (None, "val_loss"):
        model = Flat(monitor)
        fit_here(Alone, model, index_loader(2, 1), index_loader(1, 1), max_epochs=4, check_val_every_n_epoch=2)
        assert model.optimizer.param_groups[0]["lr"] == 0.5, "two validations, the second no better"
    with pytest.raises(UsageError, match="ReduceLROnPlateau looks at 'val_acc', which has not been logged"):
        fit_here(Alone, Flat("val_acc"), index_loader(2, 1), index_loader(1, 1))


class EveryStep(Line):
    """Halves its rate after every step whose mean loss over the ranks is no better than the best so far."""

    def configure_optimizers(self) -> Any:
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.01)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer, factor=0.5, patience=0)
        return {"optimizer": self.optimizer, "lr_scheduler": {"scheduler": plateau, "interval": "step", "monitor": "loss"}}

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.rates = [*getattr(self, "rates", []), self.optimizer.param_groups[0]["lr"]]


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_a_schedule_on_a_steps_metric_sees_that_steps_mean_over_the_ranks(ranks: Any, tmp_path: Any, world_size: int) -> None:
    def train(rank: Any) -> Any:
        model, first, second = EveryStep(), EveryStep(), EveryStep()
        _, records = fit_here(rank, model, line_loader(1), max_epochs=2)
        fit_here(rank, first, line_loader(1), max_epochs=2, max_steps=1, checkpoint_dir=tmp_path)
        fit_here(rank, second, line_loader(1), max_epochs=2, checkpoint_dir=tmp_path, resume="last")
        return model.rates, step_series(records, "loss"), first.rates + second.rates

    results = ranks(world_size, train)
    rate, best, expected = 0.01, float("inf"), []
    for loss in results[0][1]:
        if loss < best * (1 - 1e-4):  # torch's own threshold
            best = loss
        else:
            rate /= 2
        expected.append(rate)
    for rates, _, resumed in results:
        assert rates == resumed == pytest.approx(expected)


def test_two_optimizers_step_together_on_one_loss() -> None:
    class Two(Line):
        def __init__(self) -> None:
            super().__init__()
            self.v = nn.Parameter(torch.zeros(1))

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return (self.w + self.v).sum()

        def configure_optimizers(self) -> Any:
            return [torch.optim.SGD([self.w], lr=1.0), torch.optim.SGD([self.v], lr=0.5)]

    model = Two()
    fit_here(Alone, model, line_loader(8))
    assert (model.w.item(), model.v.item()) == (-1.0, -0.5)


def test_learning_rates_are_named_by_optimizer_and_group() -> None:
    assert Optimization.read(sgd()).learning_rates() == {"lr-SGD": 1.0}
    groups = torch.optim.Adam([{"params": LAYER.weight, "lr": 0.1}, {"params": LAYER.bias, "lr": 0.2}])
    assert Optimization.read(groups).learning_rates() == {"lr-Adam-0": 0.1, "lr-Adam-1": 0.2}
