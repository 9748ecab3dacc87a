"""A plain model is trained as it is, and batches of another shape are refused in one sentence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from train_examples import Alone, epoch_series, fit_here, index_loader, step_series

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.plain import PlainTask, pair


def task_of(model: nn.Module, **options: Any) -> PlainTask:
    return PlainTask(model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1), **options)


def pairs(length: int = 8) -> DataLoader[Any]:
    x = torch.arange(float(length)).reshape(-1, 1) / length
    return DataLoader(TensorDataset(x, 2 * x), batch_size=2)


def test_loss_and_metrics_are_logged_under_their_names_in_both_splits() -> None:
    task = task_of(nn.Linear(1, 1), metrics={"err": lambda pred, target: (pred - target).abs().mean()})
    result, records = fit_here(Alone, task, pairs(), pairs(), max_epochs=2)
    assert set(result.metrics) == {"loss", "err", "val_loss", "val_err"}
    assert len(step_series(records, "err")) == 8
    assert len(epoch_series(records, "val", "val_loss")) == 2


def test_the_model_itself_is_trained_in_place_and_keeps_no_trace() -> None:
    model = nn.Linear(1, 1)
    start, names = model.weight.detach().clone(), set(model.__dict__)
    fit_here(Alone, task_of(model), pairs())
    assert not torch.equal(model.weight, start)
    assert set(model.__dict__) == names
    assert list(model.state_dict()) == ["weight", "bias"]


def test_metrics_are_computed_without_gradients() -> None:
    graphs: list[bool] = []

    def watched(pred: Any, target: Any) -> Any:
        graphs.append((pred * 2).requires_grad)
        return 0.0

    fit_here(Alone, task_of(nn.Linear(1, 1), metrics={"m": watched}), pairs())
    assert graphs == [False] * 4


@pytest.mark.parametrize(
    ("batch", "found"),
    [(torch.zeros(2), "a Tensor"), ((1, 2, 3), "a tuple of 3 parts"), ({"x": 1}, "a dict of 1 parts"), ([1], "a list of 1")],
)
def test_other_batches_are_refused_with_what_to_do(batch: Any, found: str) -> None:
    with pytest.raises(UsageError, match=rf"\(inputs, target\), but the loader gave {found}.*subclass gpulayer_nb.Module"):
        pair(batch)
    assert pair([1, 2]) == pair((1, 2)) == (1, 2)


def test_the_refusal_reaches_the_user_from_a_fit() -> None:
    with pytest.raises(UsageError, match="the loader gave a Tensor"):
        fit_here(Alone, task_of(nn.Linear(1, 1)), index_loader(4, 2))


def test_schedules_that_torch_steps_by_batch_are_stepped_by_batch() -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=8)
    fit_here(Alone, PlainTask(model, nn.MSELoss(), optimizer, schedule), pairs(), max_epochs=2)
    assert schedule.last_epoch == 8


def test_parts_of_the_wrong_kind_are_named() -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(UsageError, match=r"loss_fn is a int; it has to be callable as loss_fn\(pred, target\)"):
        PlainTask(model, 3, optimizer)  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(UsageError, match=r"metrics\['acc'\] is a float"):
        PlainTask(model, nn.MSELoss(), optimizer, metrics={"acc": 0.5})  # type: ignore[dict-item]  # the mistake under test
    with pytest.raises(UsageError, match=r"the model is a function; it has to be a torch\.nn.Module"):
        PlainTask(lambda x: x, nn.MSELoss(), optimizer)  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(UsageError, match=r"an optimizer is a str, not a torch\.optim\.Optimizer"):
        fit_here(Alone, PlainTask(model, nn.MSELoss(), "adam"), pairs())
