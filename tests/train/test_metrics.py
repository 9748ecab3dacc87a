"""Step values are means over the ranks that logged them, epoch values means over all samples; nobody waits for ever."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from train_examples import (
    Alone,
    Line,
    Script,
    Seen,
    epoch_series,
    fit_here,
    index_loader,
    step_series,
)

from gpulayer_nb.errors import UsageError
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import EpochMetrics, NonFinite, ProgBar, Progress, StepMetrics, decode, encode
from gpulayer_nb.train.group import Group
from gpulayer_nb.train.metric_log import MetricLog
from gpulayer_nb.train.model_checkpoint import ModelCheckpoint
from gpulayer_nb.train.plain import PlainTask


def script(rank: Any, log: Any, steps: int, **options: Any) -> Any:
    """Fit a model that logs `log(rank, step)` for some steps with one sample each."""
    return fit_here(rank, Script(log), index_loader(steps * rank.world_size, 1), **options)


@pytest.mark.parametrize("world_size", [2, 4])
def test_every_step_has_the_mean_over_ranks_and_the_epoch_the_mean_over_samples(
    ranks: Any, tmp_path: Any, world_size: int
) -> None:
    losses = [[1.0, 2.0, 3.0, 10.0], [3.0, 4.0, 5.0, 0.0]]

    def train(rank: Any) -> Any:
        keep = ModelCheckpoint(tmp_path, monitor="loss", filename="{loss:.2f}", save_last=False)
        return script(rank, lambda r, s: {"loss": losses[r % 2][s - 1]}, 4, callbacks=[keep])

    results = ranks(world_size, train)
    result, records = results[0]
    assert step_series(records, "loss") == [2, 3, 4, 5]
    assert epoch_series(records, "train", "loss") == [3.5]
    assert [r[0].metrics["loss"] for r in results] == [3.5] * world_size
    assert [path.rsplit("/", 1)[1] for path in result.checkpoints] == ["3.50.pt"], "the checkpoint's name has the same value"
    assert next((r.steps, r.epochs) for r in records if isinstance(r, StepMetrics)) == ((1,), (0,))
    assert not any(records for _, records in results[1:]), "only rank 0 reports"


def test_the_epoch_mean_weighs_a_smaller_last_batch_by_its_samples(ranks: Any) -> None:
    def train(rank: Any) -> Any:
        return fit_here(rank, Seen(), index_loader(10, 4))

    _, records = ranks(2, train)[0]
    assert epoch_series(records, "train", "index") == [4.5]
    assert [r.samples for r in records if isinstance(r, EpochMetrics)] == [10]
    result, _ = ranks(4, lambda rank: fit_here(rank, Seen(), index_loader(8, 4), index_loader(10, 4)))[0]
    assert result.metrics["val_index"] == 4.5, "where two ranks have one sample less"


class Right(PlainTask):
    """Right on 0..5, wrong on 6..9; the loss is the index."""

    def __init__(self) -> None:
        weight = nn.Linear(1, 1)
        accuracy = {"acc": lambda pred, target: (pred < 6).float().mean()}
        super().__init__(weight, lambda pred, target: pred.mean(), torch.optim.SGD(weight.parameters(), lr=0.0), metrics=accuracy)

    def forward(self, x: Tensor) -> Tensor:
        return x

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        x, _ = batch
        self.log("val_loss", x.mean())
        self._log_metrics("val_", x, x)


@pytest.mark.parametrize("world_size", [2, 4])
def test_validation_equals_one_process_where_padding_would_not(ranks: Any, world_size: int) -> None:
    def train(rank: Any) -> Any:
        x = torch.arange(10.0).reshape(10, 1)
        data = TensorDataset(x, x)
        return fit_here(rank, Right(), DataLoader(data, batch_size=2), DataLoader(data, batch_size=2))

    result, records = ranks(world_size, train)[0]
    assert result.metrics["val_acc"] == pytest.approx(0.6, abs=1e-12)
    assert result.metrics["val_loss"] == 4.5
    assert [r.samples for r in records if isinstance(r, EpochMetrics) and r.split == "val"] == [10]


@pytest.mark.parametrize(("world_size", "steps"), [(2, 2), (4, 1)])
def test_a_validation_set_smaller_than_the_group_is_exact_and_a_tiny_training_set_is_repeated(
    ranks: Any, world_size: int, steps: int
) -> None:
    class Losses(Seen):
        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val_loss", (batch.mean() + 1) * 10)

    def train(rank: Any) -> Any:
        return fit_here(rank, Losses(), index_loader(3, 1), index_loader(3, 1))

    result, records = ranks(world_size, train)[0]
    assert result.metrics["val_loss"] == 20.0
    assert [r.samples for r in records if isinstance(r, EpochMetrics) and r.split == "val"] == [3]
    assert result.global_step == steps


@pytest.mark.parametrize(
    ("values", "mean"), [([3, 4], 3.5), ([1, 2, 2, 2], 1.75), ([True, False], 0.5), ([torch.tensor(3), torch.tensor(4)], 3.5)]
)
def test_whole_numbers_and_truth_values_are_averaged_not_floored(ranks: Any, values: list[Any], mean: float) -> None:
    result, records = ranks(len(values), lambda rank: script(rank, lambda r, s: {"n": values[r]}, 1))[0]
    assert step_series(records, "n") == [mean]
    assert result.metrics["n"] == mean


@pytest.mark.parametrize("world_size", [2, 4])
def test_five_samples_validate_to_their_mean(ranks: Any, world_size: int) -> None:
    result, _ = ranks(world_size, lambda rank: fit_here(rank, Seen(), index_loader(4, 1), index_loader(5, 1)))[0]
    assert result.metrics["val_index"] == 2.0


@pytest.mark.parametrize(("world_size", "bad"), [(2, 1), (4, 2)])
def test_one_ranks_nan_is_a_gap_in_that_step_and_names_the_rank(ranks: Any, world_size: int, bad: int) -> None:
    def log(rank: int, step: int) -> dict[str, float]:
        return {"loss": math.nan if (rank, step) == (bad, 2) else {1: 0.6, 2: 0.5, 3: 0.4}[step]}

    _, records = ranks(world_size, lambda rank: script(rank, log, 3))[0]
    first, second, third = step_series(records, "loss")
    assert (first, third) == (pytest.approx(0.6), pytest.approx(0.4))
    assert math.isnan(second or 0)
    assert [(r.name, r.steps, r.ranks) for r in records if isinstance(r, NonFinite)] == [("loss", (2,), (bad,))]


def test_an_infinite_value_is_named_too_in_one_process() -> None:
    _, records = script(Alone, lambda r, s: {"loss": math.inf if s == 2 else 1.0}, 3)
    assert step_series(records, "loss") == [1.0, math.inf, 1.0]
    assert [(r.steps, r.ranks) for r in records if isinstance(r, NonFinite)] == [((2,), (0,))]


@pytest.mark.parametrize("world_size", [2, 4])
def test_a_name_that_one_rank_logs_is_its_value_marked_and_training_is_untouched(ranks: Any, world_size: int) -> None:
    class Drawn(Line):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            if self.global_rank == 0:
                self.log("m", 0.7)
            return ((self.w - batch) ** 2).mean()

    def train(rank: Any) -> Any:
        model = Drawn()
        result, records = fit_here(rank, model, index_loader(10 * world_size, 1))
        return result, records, float(model.w)

    (result, records, weight), *others = ranks(world_size, train)
    assert step_series(records, "m") == [0.7] * 10
    counts = [n for r in records if isinstance(r, StepMetrics) for n in r.ranks["m"]]
    assert counts == [1] * 10
    assert result.metrics["m"] == pytest.approx(0.7)
    assert {other_weight for _, _, other_weight in others} == {weight}


def test_names_that_differ_between_ranks_and_come_late_do_not_block(ranks: Any) -> None:
    def log(rank: int, step: int) -> dict[str, float]:
        values = {"all": float(rank)}
        if step == 2 + rank:
            values[f"late{rank}"] = 1.0 + rank
        if rank == 3 and step % 2:
            values["odd"] = 5.0
        return values

    _, records = ranks(4, lambda rank: script(rank, log, 7))[0]
    assert step_series(records, "all") == [1.5] * 7
    assert step_series(records, "odd") == [5.0, None, 5.0, None, 5.0, None, 5.0]
    assert step_series(records, "late0") == [None, 1.0, None, None, None, None, None]
    assert step_series(records, "late3") == [None, None, None, None, 4.0, None, None]


def test_a_name_can_be_kept_out_of_the_steps_or_of_the_epoch() -> None:
    class Some(Line):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            self.log("only_epoch", 1.0, on_step=False)
            self.log("only_steps", 2.0, on_epoch=False, prog_bar=True)
            return self.w.sum()

    result, records = fit_here(Alone, Some(), index_loader(3, 1))
    assert step_series(records, "only_epoch") == [None, None, None]
    assert step_series(records, "only_steps") == [2.0, 2.0, 2.0]
    assert result.metrics == {"only_epoch": 1.0}


def test_names_for_the_progress_bar_are_told_before_their_values_and_once(ranks: Any) -> None:
    class Shown(Seen):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            self.log("aside", 1.0)
            self.log("loss", 2.0, prog_bar=True)
            return self.w.sum()

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val_loss", 3.0, prog_bar=True)

    _, records = ranks(2, lambda rank: fit_here(rank, Shown(), index_loader(4, 1), index_loader(2, 1), max_epochs=2))[0]
    history = RunHistory()
    first_values: dict[str, bool] = {}
    for record in records:
        if isinstance(record, (StepMetrics, EpochMetrics)):
            for name in record.values:
                first_values.setdefault(name, name in history.chosen)
        history.apply(decode(json.loads(json.dumps(encode(record)))))
    assert first_values == {"aside": False, "loss": True, "val_loss": True}
    assert history.chosen == ("loss", "val_loss")
    assert sum(isinstance(record, ProgBar) for record in records) == 2


def test_values_logged_at_the_end_of_an_epoch_belong_to_the_epoch(ranks: Any) -> None:
    class Ends(Seen):
        def on_train_epoch_end(self) -> None:
            self.log("train_end", float(self.global_rank))

        def on_validation_epoch_end(self) -> None:
            self.log("val_end", 2.0 * self.global_rank)

    result, records = ranks(2, lambda rank: fit_here(rank, Ends(), index_loader(4, 1), index_loader(2, 1)))[0]
    assert (result.metrics["train_end"], result.metrics["val_end"]) == (0.5, 1.0)
    assert step_series(records, "train_end") == [None, None]


class Watched(Script):
    """Notes when sums are begun and waited for, and when the model is asked for a loss."""

    def __init__(self, log: Any) -> None:
        super().__init__(log)
        self.events: list[str] = []

    def on_train_start(self) -> None:
        begin_sum = Group.begin_sum

        def noted(group: Group, numbers: list[float]) -> Any:
            wait = begin_sum(group, numbers)
            self.events.append("begun")
            return lambda: (self.events.append("waited for"), wait())[1]

        Group.begin_sum = noted  # type: ignore[method-assign]  # the rank's process is its own
        self.restore = lambda: setattr(Group, "begin_sum", begin_sum)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        self.events.append("step")
        return super().training_step(batch, batch_idx)

    def on_train_end(self) -> None:
        self.restore()


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_the_next_step_hides_an_exchange_of_many_steps_and_every_value_arrives_once(ranks: Any, world_size: int) -> None:
    steps = 300

    def train(rank: Any) -> Any:
        model = Watched(lambda r, s: {"loss": float(s + 10 * r)})
        loader = index_loader(steps // 2 * rank.world_size, 1)
        return fit_here(rank, model, loader, max_epochs=2), model.events

    (_, records), events = ranks(world_size, train)[0]
    mean_of_ranks = 10 * (world_size - 1) / 2
    assert step_series(records, "loss") == [step + mean_of_ranks for step in range(1, steps + 1)]
    assert [step for r in records if isinstance(r, StepMetrics) for step in r.steps] == list(range(1, steps + 1))
    hidden = [at for at, event in enumerate(events) if event == "begun" and events[at + 1 : at + 3] == ["step", "waited for"]]
    assert hidden, "no exchange was hidden"
    assert events.count("begun") == events.count("waited for")


def test_accumulated_batches_of_a_step_are_averaged_by_samples(ranks: Any) -> None:
    result, records = ranks(2, lambda rank: fit_here(rank, Seen(), index_loader(10, 2), accumulate_grad_batches=3))[0]
    assert result.global_step == 1
    assert step_series(records, "index") == [4.5]


def test_a_tensor_changed_in_place_after_log_keeps_its_logged_value() -> None:
    class Counting(Line):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            self.count += 1
            self.log("count", self.count)
            return self.w.sum()

    _, records = fit_here(Alone, Counting(), index_loader(5, 1))
    assert step_series(records, "count") == [1, 2, 3, 4, 5]


def test_log_refuses_what_is_not_one_number() -> None:
    log = MetricLog()
    with pytest.raises(UsageError, match=r"log\('x', …\) got a tensor of shape \(2, 3\).*\.mean\(\)"):
        log.add("x", torch.zeros(2, 3))
    with pytest.raises(UsageError, match=r"log\('x', …\) got a str; it records one number"):
        log.add("x", "high")


def test_nothing_is_kept_of_past_steps() -> None:
    log = MetricLog()
    log.in_steps = True
    for _ in range(50):
        for _ in range(100):
            log.add("a", torch.ones((), requires_grad=True) * 2)
            log.end_step(4)
        taken = log.take_steps()
        assert (taken.count, taken.samples) == (100, 400)
    assert log.open_steps == 0
    assert not log._entries
    assert log.take_sums().values == {"a": 10_000.0}
    log.in_steps = False
    for _ in range(5000):
        log.add("b", 1.0)
    assert len(log._entries) < 1024


def test_every_value_of_a_record_is_a_plain_float() -> None:
    _, records = script(Alone, lambda r, s: {"a": torch.tensor(1, dtype=torch.int32), "b": 2}, 2)
    values = [v for r in records if isinstance(r, (StepMetrics, EpochMetrics)) for v in r.values.values()]
    flat = [x for v in values for x in (v if isinstance(v, tuple) else (v,))]
    assert flat
    assert all(type(x) is float for x in flat)


def test_progress_counts_the_samples_of_all_ranks_and_ends_at_the_last_batch(ranks: Any) -> None:
    _, records = ranks(2, lambda rank: script(rank, lambda r, s: {}, 6))[0]
    last = [r for r in records if isinstance(r, Progress)][-1]
    assert (last.phase, last.epoch, last.batch_index, last.batches, last.global_step) == ("train", 0, 5, 6, 6)
    assert last.samples_per_second
    assert last.samples_per_second > 0
