"""A fit gives the numbers of one process, on any number of ranks, and leaves the module as it was."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from train_examples import CPU, Alone, Line, Noisy, Seen, fit_here, index_loader, line_loader, notices, step_series

from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.topology import RankPlace
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.records.record import EpochMetrics, FitStarted
from gpulayer_nb.train.fit import fit
from gpulayer_nb.train.module import Module
from gpulayer_nb.train.plain import PlainTask
from gpulayer_nb.train.position import FitPosition


def trained_line(rank: Any, batch_size: int, **options: Any) -> float:
    model = Line()
    fit_here(rank, model, line_loader(batch_size), **options)
    return float(model.w)


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize(("global_batch", "weight"), [(4, 1.779), (8, 1.02)])
def test_ranks_equal_one_process_with_the_global_batch_and_the_same_rate(
    ranks: Any, world_size: int, global_batch: int, weight: float
) -> None:
    found = ranks(world_size, lambda rank: trained_line(rank, global_batch // world_size))
    assert found == pytest.approx([weight] * world_size, abs=1e-6)


@pytest.mark.parametrize("world_size", [2, 4])
def test_accumulated_batches_equal_one_large_batch(ranks: Any, world_size: int) -> None:
    found = ranks(world_size, lambda rank: trained_line(rank, 4 // world_size, accumulate_grad_batches=2))
    assert found == pytest.approx([1.02] * world_size, abs=1e-6)


def test_the_short_group_at_the_end_of_an_epoch_is_a_whole_step(ranks: Any) -> None:
    """Four batches a rank in groups of three: a step on 3/4 of the data, then one on the rest."""
    on_two = ranks(2, lambda rank: trained_line(rank, 1, accumulate_grad_batches=3))
    w = torch.zeros(1, requires_grad=True)
    for x in (torch.arange(1.0, 7.0), torch.arange(7.0, 9.0)):
        (gradient,) = torch.autograd.grad(((w * x - 2 * x) ** 2).mean(), w)
        w = (w - 0.01 * gradient).detach().requires_grad_()
    assert on_two == pytest.approx([w.item()] * 2, abs=1e-6)


def plain_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def train_plain(rank: Any, batch_size: int) -> Any:
    model = plain_net()
    generator = torch.Generator().manual_seed(1)
    data = TensorDataset(torch.randn(48, 6, generator=generator), torch.randint(0, 3, (48,), generator=generator))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    accuracy = {"acc": lambda pred, target: (pred.argmax(1) == target).float().mean()}
    task = PlainTask(model, nn.CrossEntropyLoss(), optimizer, metrics=accuracy)
    result, records = fit_here(
        rank, task, DataLoader(data, batch_size=batch_size, shuffle=True), DataLoader(data, batch_size=5), max_epochs=3, seed=4
    )
    return result.metrics, step_series(records, "loss"), [p.detach() for p in model.parameters()]


def test_two_nodes_of_two_equal_one_process_with_the_global_batch(ranks: Any) -> None:
    (alone,) = ranks(1, lambda rank: train_plain(rank, 16))
    on_four = ranks(4, lambda rank: train_plain(rank, 4), devices=2)
    for metrics, _, weights in on_four:
        assert metrics == pytest.approx(alone[0], abs=1e-6)
        assert set(metrics) == {"loss", "acc", "val_loss", "val_acc"}
        for weight, expected in zip(weights, alone[2], strict=True):
            torch.testing.assert_close(weight, expected, atol=1e-6, rtol=0)
    assert on_four[0][1] == pytest.approx(alone[1], abs=1e-6)


def test_one_process_needs_no_group() -> None:
    assert not dist.is_initialized()
    assert trained_line(Alone, 8) == pytest.approx(1.02)
    assert not dist.is_initialized()


def test_several_ranks_without_a_group_are_refused() -> None:
    with pytest.raises(UsageError, match="for 2 ranks, but this process is in no process group"):
        fit(Line(), line_loader(2), options=FitOptions(), place=RankPlace(0, 0, 0), world_size=2, devices_per_node=2, device=CPU)


def test_the_module_keeps_no_trace_of_a_fit_and_can_be_pickled_and_copied_within_one() -> None:
    class Copied(Line):
        def on_train_epoch_start(self) -> None:
            assert self.trainer.max_epochs == 1
            self.twin = [copy.deepcopy(self)]

    model = Copied()
    before = set(model.__dict__)
    fit_here(Alone, model, line_loader(4))
    assert set(model.__dict__) - before == {"twin"}
    assert "_gpulayer_fit" not in model.twin[0].__dict__
    assert all(p.grad is None for p in model.parameters())
    assert not any(hook for m in model.modules() for hook in (m._forward_hooks, m._backward_hooks, m._forward_pre_hooks))
    twin = pickle.loads(pickle.dumps(Line()))
    assert twin.current_epoch == 0
    twin.log("loss", 1.0)  # nothing happens outside a fit
    with pytest.raises(UsageError, match="trainer is there only while a fit is on"):
        assert twin.trainer  # the property raises


def test_the_module_is_let_go_after_an_error_too() -> None:
    class Failing(Line):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            if self.global_step == 1:
                raise ValueError("bad sample 17")
            return super().training_step(batch, batch_idx)

    model, position = Failing(), FitPosition()
    with pytest.raises(ValueError, match="bad sample 17"):
        fit_here(Alone, model, line_loader(2), position=position, max_epochs=2)
    assert "_gpulayer_fit" not in model.__dict__
    assert (position.epoch, position.batch_index, position.global_step) == (0, 1, 1)


@pytest.mark.parametrize("world_size", [2, 4])
def test_equal_weights_on_all_ranks_without_a_seed_and_other_noise_on_each(ranks: Any, world_size: int) -> None:
    class Checked(Seen):
        def on_train_start(self) -> None:
            self.start = float(self.layer.weight.sum())

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            self.batches.append(batch.flatten().tolist())
            return self.layer(batch[:, :1]).mean() * 0 + self.w.sum() * 0

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 1)

    def train(rank: Any) -> Any:
        torch.seed()  # every rank builds other weights
        model = Checked()
        torch.manual_seed(0)
        __import__("numpy").random.seed(0)
        fit_here(rank, model, DataLoader(Noisy(8), batch_size=2, num_workers=2))
        return model.start, model.batches

    first, again = ranks(world_size, train), ranks(world_size, train)
    assert len({start for start, _ in first}) == 1, "rank 0's weights are everybody's"
    draws = [x for _, batches in first for batch in batches for x in batch]
    assert len(set(draws)) == len(draws) == 16, "augmentation differs between ranks and between workers"
    assert [b for _, b in first] == [b for _, b in again], "and is the same in the next run"


def test_code_after_a_fit_draws_the_numbers_it_would_have_drawn() -> None:
    torch.manual_seed(3)
    trained_line(Alone, 2)
    after = torch.rand(())
    torch.manual_seed(3)
    trained_line(Alone, 4)
    assert torch.rand(()) == after
    assert torch.initial_seed() == 3


def test_a_seed_in_the_cell_sets_the_order_of_the_samples() -> None:
    def order(seed: int) -> list[list[float]]:
        torch.manual_seed(seed)
        model = Seen()
        fit_here(Alone, model, index_loader(8, 4, shuffle=True))
        return model.batches

    assert order(5) == order(5)
    assert order(5) != order(6)


def test_each_epoch_is_a_partition_in_another_order(ranks: Any) -> None:
    def train(rank: Any) -> list[float]:
        model = Seen()
        fit_here(rank, model, index_loader(8, 2, shuffle=True), max_epochs=3, seed=0)
        return [x for batch in model.batches for x in batch]

    first, second = ranks(2, train)
    assert first == [4, 7, 2, 1, 5, 2, 7, 1, 0, 7, 6, 1]
    assert second == [0, 3, 5, 6, 4, 6, 3, 0, 4, 2, 5, 3]


def test_a_stop_wanted_on_one_rank_stops_all_after_the_same_step(ranks: Any) -> None:
    def train(rank: Any) -> Any:
        model = Seen()

        def wanted() -> bool:
            return rank.rank == 2 and model.global_step >= 20

        result, records = fit_here(rank, model, index_loader(40_000, 1), should_stop=wanted)
        return result.state, result.global_step, len(model.batches), len(step_series(records, "index"))

    results = ranks(4, train)
    assert len({r[:3] for r in results}) == 1
    state, step, batches, recorded = results[0]
    assert state == "stopped"
    assert 20 <= step < 10_000
    assert batches == step == recorded


def test_a_callback_on_one_rank_ends_all_and_that_is_finished_not_stopped(ranks: Any) -> None:
    class Enough(Seen):
        def on_train_epoch_end(self) -> None:
            self.trainer.should_stop = self.global_rank == 1 and self.current_epoch == 1

    results = ranks(2, lambda rank: fit_here(rank, Enough(), index_loader(4, 1), max_epochs=9)[0])
    assert {(r.state, r.epochs_done) for r in results} == {("finished", 2)}


def test_max_steps_ends_within_an_epoch_and_validates_once_more() -> None:
    model = Seen()
    result, records = fit_here(Alone, model, index_loader(10, 1), index_loader(2, 1), max_epochs=None, max_steps=13)
    assert (result.state, result.global_step, result.epochs_done, len(model.batches)) == ("finished", 13, 1, 13)
    assert [r.split for r in records if isinstance(r, EpochMetrics)] == ["train", "val", "train", "val"]
    started = next(r for r in records if isinstance(r, FitStarted))
    assert (started.max_steps, started.batches_per_epoch, started.batch_size, started.train_samples) == (13, 10, 1, 10)


def test_max_time_ends_a_fit_at_an_exchange(ranks: Any) -> None:
    results = ranks(2, lambda rank: fit_here(rank, Seen(), index_loader(10**6, 1), max_epochs=None, max_time_seconds=0.3)[0])
    assert {r.state for r in results} == {"finished"}
    assert results[0].global_step == results[1].global_step > 0


def test_limits_and_the_validation_interval_are_kept() -> None:
    model = Seen()
    _, records = fit_here(
        Alone, model, index_loader(20, 2), index_loader(20, 2), max_epochs=4, limit_train_batches=0.2, limit_val_batches=3,
        check_val_every_n_epoch=3,
    )  # fmt: skip
    assert len(model.batches) == 8
    assert len(model.val_batches) == 6
    assert [r.epoch for r in records if isinstance(r, EpochMetrics) and r.split == "val"] == [2, 3]


@pytest.mark.parametrize(("world_size", "expected"), [(2, [0.59, 1.19]), (4, [0.2, 1.7])])
def test_batch_norm_is_the_same_on_all_ranks_in_validation_after_it_and_in_the_file(
    ranks: Any, tmp_path: Path, world_size: int, expected: list[float]
) -> None:
    class Normed(Line):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.layer = nn.BatchNorm1d(1), nn.Linear(1, 1)
            self.validated_with: list[float] = []

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            return self.layer(self.norm(batch.reshape(-1, 1))).mean() + self.w.sum() * 0

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            assert not self.norm.training
            self.validated_with = [float(self.norm.running_mean), float(self.norm.running_var)]

    def train(rank: Any) -> Any:
        model = Normed()
        fit_here(rank, model, index_loader(8, 2), index_loader(8, 2), checkpoint_dir=tmp_path)
        assert model.norm.training
        return model.validated_with, [float(model.norm.running_mean), float(model.norm.running_var)]

    for validated, after in ranks(world_size, train):
        assert validated == after == pytest.approx(expected, abs=1e-6)
    saved = torch.load(tmp_path / "last.pt", weights_only=True)["model"]
    assert [float(saved["norm.running_mean"]), float(saved["norm.running_var"])] == pytest.approx(expected, abs=1e-6)


def test_frozen_parts_stay_in_evaluation_mode_over_a_validation() -> None:
    class Frozen(Seen):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(1)

        def on_train_start(self) -> None:
            self.norm.eval()

        def on_train_epoch_start(self) -> None:
            assert self.training
            assert not self.norm.training

    fit_here(Alone, Frozen().eval(), index_loader(2, 1), index_loader(2, 1), max_epochs=2)


@pytest.mark.parametrize("world_size", [2, 4])
def test_parameters_left_out_of_the_loss_are_named_unless_allowed(ranks: Any, errors_of: Any, world_size: int) -> None:
    class TwoHeads(Line):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(1, 1), nn.Linear(1, 1)

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            return self.a(batch.reshape(-1, 1)).mean() + self.w.sum()

    def train(rank: Any, **options: Any) -> int:
        return fit_here(rank, TwoHeads(), index_loader(3 * rank.world_size, 1), **options)[0].global_step

    for error in errors_of(world_size, train):
        assert isinstance(error, UsageError)
        assert "took no part in the loss: b.weight, b.bias." in str(error)
        assert "--find-unused-parameters" in str(error)
    assert ranks(world_size, lambda rank: train(rank, find_unused_parameters=True)) == [3] * world_size
    assert train(Alone) == 3


def test_ranks_with_other_numbers_of_batches_are_told_who_ran_short(errors_of: Any) -> None:
    def train(rank: Any) -> Any:
        values = range(5) if rank.rank == 0 else range(5, 9)
        return fit_here(rank, Seen(), (torch.tensor([float(i)]) for i in values))

    for error in errors_of(2, train, seconds=15):
        assert isinstance(error, UsageError)
        assert str(error).startswith("rank 1 ended after 4 batches while rank 0 is in batch 5.")


def test_known_lengths_that_differ_are_refused_before_the_first_step(errors_of: Any) -> None:
    def train(rank: Any) -> Any:
        return fit_here(rank, Seen(), index_loader(4 + rank.rank, 1), use_distributed_sampler=False)

    for error in errors_of(2, train, seconds=15):
        assert "different numbers of training batches (rank 0: 4, rank 1: 5)" in str(error)


def test_models_that_differ_are_refused_before_the_first_step(errors_of: Any) -> None:
    class Wide(Line):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.extra = nn.Linear(width, 1)

    for error in errors_of(2, lambda rank: fit_here(rank, Wide(1 + rank.rank), index_loader(4, 1)), seconds=15):
        assert "rank 1's model differs from rank 0's" in str(error)


class Returning(Line):
    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.output(self) if callable(self.output) else self.output


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (None, r"training_step returned None; it has to return the loss, a tensor\. Is a `return loss` missing\?"),
        (1.5, "training_step returned a float"),
        ({"acc": 1}, "returned a dict with the keys 'acc'; it needs the loss, a tensor, under \"loss\""),
        (lambda m: m.w * torch.ones(3), r"the loss has the shape \(3,\); it has to be one number"),
        (lambda m: torch.ones(()), "the loss depends on no trainable parameter"),
    ],
)
def test_a_loss_that_cannot_be_is_explained(output: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fit_here(Alone, Returning(output), line_loader(2))


def test_a_dict_with_the_loss_will_do() -> None:
    assert fit_here(Alone, Returning(lambda m: {"loss": m.w.sum(), "other": 3}), line_loader(2))[0].global_step == 4


def test_a_users_own_runtime_error_is_passed_on_as_it_is() -> None:
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fit_here(Alone, Returning(lambda m: Broken.apply(m.w).sum()), line_loader(2))


def test_gradients_are_clipped_to_the_norm() -> None:
    model = Line()
    fit_here(Alone, model, line_loader(8), gradient_clip_val=1.0)
    assert float(model.w) == pytest.approx(0.01)


def test_bfloat16_trains_with_weights_kept_in_full_precision() -> None:
    seen: list[torch.dtype] = []

    class Mixed(Line):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 1)

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            out = self.layer(batch.reshape(-1, 1))
            seen.append(out.dtype)
            return out.float().mean() + self.w.sum()

    model = Mixed()
    fit_here(Alone, model, index_loader(2, 1), precision="bf16-mixed")
    assert seen == [torch.bfloat16] * 2
    assert model.layer.weight.dtype == torch.float32


def test_synchronised_batch_norm_is_refused_without_gpus() -> None:
    with pytest.raises(UsageError, match="sync_batchnorm needs GPUs"):
        fit_here(Alone, Line(), line_loader(2), sync_batchnorm=True)


def test_a_loader_that_leaves_no_batch_is_refused_with_the_numbers() -> None:
    with pytest.raises(UsageError, match="no batch: 3 samples over 1 ranks in batches of 8"):
        fit_here(Alone, Seen(), index_loader(3, 8, drop_last=True))


def test_an_optimizer_of_another_model_is_refused() -> None:
    class Other(Line):
        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(Line().parameters(), lr=0.1)

    with pytest.raises(UsageError, match="none of the 1 parameters in the SGD optimizer belong to the model"):
        fit_here(Alone, Other(), line_loader(2))


def test_a_plain_model_without_a_loss_is_refused() -> None:
    with pytest.raises(UsageError, match=r"a Linear cannot be fitted as it is: .* Give loss_fn and optimizer with it"):
        fit_here(Alone, nn.Linear(1, 1), line_loader(2))


def test_no_epochs_is_a_finished_fit_of_no_steps() -> None:
    result, records = fit_here(Alone, Line(), line_loader(2), max_epochs=0)
    assert (result.state, result.global_step, result.metrics) == ("finished", 0, {})
    assert not notices(records)


def test_hooks_are_called_in_order() -> None:
    called: list[str] = []

    def note(name: str) -> Any:
        return lambda self, *arguments: called.append(name)

    names = [
        "on_fit_start",
        "on_train_start",
        "on_train_epoch_start",
        "on_train_batch_start",
        "on_train_batch_end",
        "on_train_epoch_end",
        "on_validation_start",
        "on_validation_epoch_start",
        "on_validation_batch_start",
        "on_validation_batch_end",
        "on_validation_epoch_end",
        "on_validation_end",
        "on_train_end",
        "on_fit_end",
    ]
    hooked = type("Hooked", (Seen,), {name: note(name) for name in names})
    fit_here(Alone, hooked(), index_loader(1, 1), index_loader(1, 1))
    assert called == names


def test_sixteen_bits_train_as_full_precision_does_also_clipped_and_saved(ranks: Any, tmp_path: Path) -> None:
    """The scaler is taken out before clipping, and goes on in a resumed fit."""

    def weight(rank: Any, precision: str, **options: Any) -> float:
        model = Line()
        fit_here(rank, model, line_loader(2), precision=precision, gradient_clip_val=1.0, **options)
        return float(model.w.detach())

    def train(rank: Any) -> Any:
        parts = {"checkpoint_dir": tmp_path, "max_epochs": 2}
        weight(rank, "16-mixed", checkpoint_dir=tmp_path)
        full, mixed = weight(rank, "32", max_epochs=2), weight(rank, "16-mixed", max_epochs=2)
        return full, mixed, weight(rank, "16-mixed", resume="last", **parts)

    for full, mixed, resumed in ranks(2, train):
        assert mixed == pytest.approx(full, rel=1e-2)
        assert mixed == pytest.approx(0.04, rel=1e-2), "four steps of norm 1 at a rate of 0.01"
        assert resumed == mixed


@pytest.mark.slow
def test_memory_does_not_grow_with_logged_tensors_that_have_a_graph(ranks: Any) -> None:
    def train(rank: Any) -> float:
        import psutil

        class Wide(Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = nn.Linear(1000, 1000)
                self.memory: list[int] = []

            def training_step(self, batch: Any, batch_idx: int) -> Tensor:
                out = self.layer(batch)
                self.log("square", (out**2).mean())
                self.memory.append(psutil.Process().memory_info().rss)
                return out.mean()

            def configure_optimizers(self) -> Any:
                return torch.optim.SGD(self.parameters(), lr=1e-4)

        model = Wide()
        fit_here(rank, model, [torch.randn(256, 1000)] * 250)
        return (model.memory[-1] - model.memory[49]) / 2**20

    assert max(ranks(2, train, seconds=120)) < 50
