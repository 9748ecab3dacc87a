"""Checkpoints come from one writer, are always whole, load anywhere, and a resumed fit equals one without a break."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from train_examples import Alone, Line, Seen, epoch_series, fit_here, index_loader, line_loader, notices, step_series

import gpulayer_nb.train.checkpoint as checkpoint_file
from gpulayer_nb.errors import UsageError
from gpulayer_nb.records.record import CheckpointSaved, FitStarted
from gpulayer_nb.train.callbacks import EarlyStopping, ModelCheckpoint
from gpulayer_nb.train.plain import PlainTask

LOAD_ELSEWHERE = """
import sys, torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.w = nn.Parameter(torch.zeros(1))
net = Net()
state = torch.load(sys.argv[1], weights_only=True)
net.load_state_dict(state["model"], strict=True)
print(round(net.w.item(), 4), list(state["model"]), state["epoch"], state["global_step"])
"""


@pytest.mark.parametrize("world_size", [2, 4])
def test_a_file_of_several_ranks_loads_into_the_plain_class_elsewhere(ranks: Any, tmp_path: Path, world_size: int) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            return self.w * x

    def train(rank: Any) -> Any:
        model = Net()
        task = PlainTask(model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.01))
        result, records = fit_here(rank, task, line_loader(8 // world_size), checkpoint_dir=tmp_path)
        return result.checkpoints, [r.path for r in records if isinstance(r, CheckpointSaved)], float(model.w.detach())

    (paths, saved, weight), *others = ranks(world_size, train)
    assert paths == (str(tmp_path / "last.pt"),)
    assert saved == list(paths)
    assert [other_paths for other_paths, _, _ in others] == [()] * (world_size - 1)
    assert [p.name for p in tmp_path.iterdir()] == ["last.pt"], "nothing unfinished is left"
    command = [sys.executable, "-c", LOAD_ELSEWHERE, paths[0]]
    script = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert script.stdout.strip() == "1.02 ['w'] 1 1"
    assert weight == pytest.approx(1.02)


def test_only_global_rank_zero_writes_and_a_reader_never_meets_half_a_file(ranks: Any, tmp_path: Path) -> None:
    folder, unreadable, stop = tmp_path / "shared", [], threading.Event()

    def read_again_and_again() -> None:
        while not stop.is_set():
            if (folder / "last.pt").exists():
                try:
                    torch.load(folder / "last.pt", weights_only=True)
                except Exception as error:  # noqa: BLE001  # any is a failure of the test
                    unreadable.append(error)
            time.sleep(0.001)

    class Large(Seen):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("ballast", torch.zeros(200_000))

    def train(rank: Any) -> list[tuple[int, int]]:
        writes: list[tuple[int, int]] = []
        own_write = checkpoint_file.write

        def noted(path: Path, content: Any) -> None:
            writes.append((rank.rank, os.getpid()))
            own_write(path, content)

        import gpulayer_nb.train.resume as resume

        resume.write = noted
        fit_here(rank, Large(), index_loader(8, 1), max_epochs=3, checkpoint_dir=folder)
        return writes

    reader = threading.Thread(target=read_again_and_again)
    reader.start()
    try:
        writes = ranks(4, train, devices=2)
    finally:
        stop.set()
        reader.join(10)
    assert [len(w) for w in writes] == [3, 0, 0, 0]
    assert {rank for rank, _ in writes[0]} == {0}
    assert not unreadable


def test_a_writer_killed_within_a_save_leaves_the_last_whole_file(ranks: Any, tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    checkpoint_file.write(path, {"format": 1, "model": {}, "epoch": 2})

    def die_within_the_save(rank: Any) -> None:
        def half(content: Any, file: Any) -> None:
            file.write(b"half of it")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)

        torch.save = half
        checkpoint_file.write(path, {"format": 1, "model": {}, "epoch": 3})

    with pytest.raises(AssertionError, match=r"ranks ended without a result: \[0\]"):
        ranks(1, die_within_the_save)
    assert checkpoint_file.read(path, "it")["epoch"] == 2


def test_rank_zero_killed_in_its_third_save_leaves_the_second_epochs_file(ranks: Any, tmp_path: Path) -> None:
    def train(rank: Any) -> None:
        saves, own_save = [], torch.save

        def dies_in_the_third(content: Any, file: Any) -> None:
            saves.append(1)
            if len(saves) == 3:
                file.write(b"half of it")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            own_save(content, file)

        torch.save = dies_in_the_third
        fit_here(rank, Line(), line_loader(2), max_epochs=3, checkpoint_dir=tmp_path)

    with pytest.raises(AssertionError, match=r"ranks ended without a result: \[0"):
        ranks(4, train, devices=2)
    found = torch.load(tmp_path / "last.pt", weights_only=True)
    assert (found["epoch"], found["global_step"]) == (2, 2)


class Slope(Line):
    """y = 3x − 1 with weight and bias from zero, SGD with momentum."""

    def __init__(self) -> None:
        super().__init__()
        del self.w
        self.layer = nn.Linear(1, 1)
        nn.init.zeros_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = batch
        loss = nn.functional.mse_loss(self.layer(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    @property
    def numbers(self) -> list[float]:
        return [self.layer.weight.item(), self.layer.bias.item()]


def slope_loader() -> DataLoader[Any]:
    x = torch.arange(8.0).reshape(8, 1) / 8
    return DataLoader(TensorDataset(x, 3 * x - 1), batch_size=2, shuffle=True)


@pytest.mark.parametrize("world_size", [2, 4])
def test_two_epochs_and_two_more_equal_four(ranks: Any, tmp_path: Path, world_size: int) -> None:
    def train(rank: Any) -> Any:
        whole, first, second = Slope(), Slope(), Slope()
        fit_here(rank, whole, slope_loader(), max_epochs=4, seed=0)
        fit_here(rank, first, slope_loader(), max_epochs=2, seed=0, checkpoint_dir=tmp_path)
        result, records = fit_here(rank, second, slope_loader(), max_epochs=4, seed=0, checkpoint_dir=tmp_path, resume="last")
        return whole.numbers, first.numbers, second.numbers, result, records

    whole, first, second, result, records = ranks(world_size, train)[0]
    if world_size == 2:
        assert whole == pytest.approx([1.209523, -0.075107], abs=1e-5)
        assert first == pytest.approx([0.580378, 0.366404], abs=1e-5)
    assert second == pytest.approx(whole, abs=1e-6)
    steps = 16 // world_size
    assert (result.epochs_done, result.global_step) == (4, steps)
    started = next(r for r in records if isinstance(r, FitStarted))
    assert (started.start_epoch, started.start_step) == (2, steps // 2)


class Dropping(Slope):
    """With dropout, Adam, and a schedule: everything that a resume has to put back."""

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = batch
        loss = nn.functional.mse_loss(self.layer(nn.functional.dropout(x, 0.5)), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.1)
        return [optimizer], [{"scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9), "interval": "step"}]


@pytest.mark.parametrize("first_steps", [3, 4, 6])
def test_a_fit_stopped_within_an_epoch_goes_on_with_the_next_batch(ranks: Any, tmp_path: Path, first_steps: int) -> None:
    def train(rank: Any) -> Any:
        torch.manual_seed(9)
        whole, first, second = Dropping(), Dropping(), Dropping()
        _, records = fit_here(rank, whole, slope_loader(), max_epochs=4, seed=5)
        fit_here(rank, first, slope_loader(), max_epochs=4, max_steps=first_steps, seed=5, checkpoint_dir=tmp_path)
        _, later = fit_here(rank, second, slope_loader(), max_epochs=4, seed=5, checkpoint_dir=tmp_path, resume="last")
        return whole.numbers, second.numbers, step_series(records, "loss"), step_series(later, "loss")

    whole, second, losses, later_losses = ranks(2, train)[0]
    if first_steps % 2 == 0:  # at the end of an epoch, dropout is the same too
        assert second == pytest.approx(whole, abs=1e-6)
        assert later_losses == pytest.approx(losses[first_steps:], abs=1e-6)
    assert len(later_losses) == 8 - first_steps


def test_batches_done_before_a_stop_are_not_repeated_after_it(ranks: Any, tmp_path: Path) -> None:
    def train(rank: Any) -> Any:
        first, second = Seen(), Seen()
        fit_here(rank, first, index_loader(12, 1, shuffle=True), max_steps=4, seed=1, checkpoint_dir=tmp_path)
        fit_here(rank, second, index_loader(12, 1, shuffle=True), seed=1, checkpoint_dir=tmp_path, resume="last")
        return first.batches + second.batches

    seen = [x for part in ranks(2, train) for batch in part for x in batch]
    assert sorted(seen) == list(range(12))


def test_only_rank_zero_needs_to_see_the_file_and_all_hear_of_its_absence(ranks: Any, errors_of: Any, tmp_path: Path) -> None:
    def train(rank: Any) -> float:
        fit_here(rank, Line(), line_loader(2), checkpoint_dir=tmp_path / f"seen-by-{rank.rank}")
        model = Line()
        fit_here(rank, model, line_loader(2), max_epochs=2, checkpoint_dir=tmp_path / f"seen-by-{rank.rank}", resume="last")
        return float(model.w.detach())

    first, second = ranks(2, train)
    assert first == second
    assert not (tmp_path / "seen-by-1").exists()
    for error in errors_of(2, lambda rank: fit_here(rank, Line(), line_loader(2), resume=str(tmp_path / "no.pt"))):
        assert isinstance(error, UsageError)
        assert "there is no checkpoint" in str(error)
        assert "no.pt" in str(error)


def test_files_that_are_no_checkpoints_and_models_that_differ_are_refused(tmp_path: Path) -> None:
    (tmp_path / "torn.pt").write_bytes(b"PK\x03\x04 half")
    with pytest.raises(UsageError, match=r"torn\.pt cannot be read as a checkpoint"):
        fit_here(Alone, Line(), line_loader(2), resume=str(tmp_path / "torn.pt"))
    torch.save({"w": torch.zeros(1)}, tmp_path / "weights.pt")
    with pytest.raises(UsageError, match=r"weights\.pt is no checkpoint of gpulayer_nb"):
        fit_here(Alone, Line(), line_loader(2), resume=str(tmp_path / "weights.pt"))
    fit_here(Alone, Line(), line_loader(2), checkpoint_dir=tmp_path)
    with pytest.raises(UsageError, match=r"does not fit the model: .*layer\.weight"):
        fit_here(Alone, Slope(), slope_loader(), checkpoint_dir=tmp_path, resume="last")


def test_a_finished_checkpoint_leaves_nothing_to_train_and_it_is_said(tmp_path: Path) -> None:
    fit_here(Alone, Line(), line_loader(2), checkpoint_dir=tmp_path)
    result, records = fit_here(Alone, Line(), line_loader(2), checkpoint_dir=tmp_path, resume="last")
    assert (result.state, result.global_step) == ("finished", 4)
    (notice,) = notices(records)
    assert notice.startswith("the checkpoint has 1 of 1 epochs already: nothing is left to train.")


class Scores(Seen):
    """Logs a given score per epoch."""

    def __init__(self, *scores: float) -> None:
        super().__init__()
        self.scores = scores

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("score", self.scores[self.current_epoch])


def test_the_best_are_kept_by_a_metric_and_the_names_carry_the_shown_value(ranks: Any, tmp_path: Path) -> None:
    def train(rank: Any) -> Any:
        keep = ModelCheckpoint(tmp_path, monitor="score", mode="max", save_top_k=2, filename="{epoch}-{score:.1f}")
        model = Scores(0.3, 0.9, 0.1, 0.5)
        result, _ = fit_here(rank, model, index_loader(2, 1), index_loader(2, 1), max_epochs=4, callbacks=[keep])
        return result.checkpoints, keep.best_model_path, keep.best_model_score

    results = ranks(2, train)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1-0.9.pt", "3-0.5.pt", "last.pt"]
    assert sorted(map(os.path.basename, results[0][0])) == ["1-0.9.pt", "3-0.5.pt", "last.pt"]
    assert results[0][1:] == results[1][1:] == (str(tmp_path / "1-0.9.pt"), 0.9)


def test_checkpoints_within_an_epoch_every_so_many_steps(tmp_path: Path) -> None:
    _, records = fit_here(
        Alone, Seen(), index_loader(7, 1), callbacks=[ModelCheckpoint(tmp_path, every_n_train_steps=3)], checkpoint_dir=tmp_path
    )
    assert [r.global_step for r in records if isinstance(r, CheckpointSaved)] == [3, 6, 7]


def test_checkpointing_can_be_switched_off_or_has_no_folder(tmp_path: Path) -> None:
    assert fit_here(Alone, Line(), line_loader(2), checkpoint_dir=tmp_path, enable_checkpointing=False)[0].checkpoints == ()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="ModelCheckpoint does not know where to write"):
        fit_here(Alone, Line(), line_loader(2), callbacks=[ModelCheckpoint()])


def test_a_name_that_cannot_be_filled_in_says_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot fill in its filename '\{val_loss\}'.*Known: epoch, step, loss"):
        fit_here(Alone, Line(), line_loader(2), callbacks=[ModelCheckpoint(tmp_path, filename="{val_loss}", save_top_k=1)])


def test_callbacks_go_on_where_they_were(tmp_path: Path) -> None:
    def stopper() -> EarlyStopping:
        return EarlyStopping("score", patience=3)

    def fit_on(callback: EarlyStopping, **options: Any) -> Any:
        model = Scores(1.0, 2.0, 2.0, 2.0, 2.0, 2.0)
        return fit_here(
            Alone, model, index_loader(2, 1), index_loader(1, 1), callbacks=[callback], checkpoint_dir=tmp_path, **options
        )[0]

    fit_on(stopper(), max_epochs=2)
    later = stopper()
    result = fit_on(later, max_epochs=6, resume="last")
    assert (result.epochs_done, later.best_score) == (4, 1.0)


@pytest.mark.parametrize("make", [
    lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=10),
    lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10),
    lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda step: 0.5**step),
    lambda o: torch.optim.lr_scheduler.SequentialLR(
        o, [torch.optim.lr_scheduler.ConstantLR(o), torch.optim.lr_scheduler.ExponentialLR(o, 0.9)], [2]
    ),
    lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0),
])  # fmt: skip
def test_torchs_schedulers_are_saved_and_go_on(make: Any, tmp_path: Path) -> None:
    class Scheduled(Line):
        def configure_optimizers(self) -> Any:
            self.optimizer = torch.optim.AdamW(self.parameters(), lr=0.1)
            return {"optimizer": self.optimizer, "lr_scheduler": make(self.optimizer)}

    whole, first, second = Scheduled(), Scheduled(), Scheduled()
    fit_here(Alone, whole, line_loader(4), max_epochs=4)
    fit_here(Alone, first, line_loader(4), max_epochs=2, checkpoint_dir=tmp_path)
    fit_here(Alone, second, line_loader(4), max_epochs=4, checkpoint_dir=tmp_path, resume="last")
    assert second.optimizer.param_groups[0]["lr"] == pytest.approx(whole.optimizer.param_groups[0]["lr"])
    assert float(second.w.detach()) == pytest.approx(float(whole.w.detach()), abs=1e-6)


class Drawing(Line):
    """Draws from torch, numpy and random in every step, and logs what it drew."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        noise = torch.rand(()).item() + float(np.random.rand()) + random.random()
        loss = ((self.w * batch[0] * noise - batch[1]) ** 2).mean()
        self.log_dict({"noise": noise, "loss": loss})
        return loss


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_fit_killed_within_an_epoch_goes_on_as_if_nothing_had_been(
    ranks: Any, tmp_path: Path, world_size: int, steps: int
) -> None:
    """Weights, every later draw and the mean of the whole epoch equal an uninterrupted fit's."""

    def whole(rank: Any) -> Any:
        return outcome(*fit_here(rank, Drawing(), line_loader(1, shuffle=True), seed=3, max_epochs=2))

    def killed(rank: Any) -> None:
        class Dies(Drawing):
            def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
                if self.global_step == steps:
                    raise KeyboardInterrupt

        saver = ModelCheckpoint(tmp_path, every_n_train_steps=1)
        with pytest.raises(KeyboardInterrupt):
            fit_here(rank, Dies(), line_loader(1, shuffle=True), seed=3, callbacks=[saver])

    def resumed(rank: Any) -> Any:
        options = {"seed": 3, "max_epochs": 2, "resume": str(tmp_path / "last.pt")}
        return outcome(*fit_here(rank, Drawing(), line_loader(1, shuffle=True), **options))

    def outcome(result: Any, records: Any) -> Any:
        return step_series(records, "noise"), epoch_series(records, "train", "loss"), result.global_step

    expected = ranks(world_size, whole)[0]
    ranks(world_size, killed)
    found = ranks(world_size, resumed)[0]
    assert found[0] == pytest.approx(expected[0][steps:], rel=1e-12), "every draw after the checkpoint is the same"
    assert found[1] == pytest.approx(expected[1], rel=1e-12), "the epoch's mean is that of all its steps"
    assert found[2] == expected[2]


def test_best_is_what_the_newest_checkpoint_says_and_needs_a_monitor(tmp_path: Path) -> None:
    class Up(Line):
        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val_w", self.w)

    saver = ModelCheckpoint(tmp_path, monitor="val_w")
    fit_here(Alone, Up(), line_loader(8), line_loader(8), max_epochs=3, callbacks=[saver])
    model = Up()
    options = {"max_epochs": 1, "callbacks": [ModelCheckpoint(tmp_path, monitor="val_w")]}
    result, _ = fit_here(Alone, model, line_loader(8), **options, resume="best")
    assert (result.global_step, round(model.w.item(), 4)) == (1, 1.02), "the smallest weight is that of the first epoch"
    fit_here(Alone, Line(), line_loader(8), checkpoint_dir=tmp_path / "plain")
    with pytest.raises(UsageError, match="is known as the best: nobody watched a metric"):
        fit_here(Alone, Line(), line_loader(8), checkpoint_dir=tmp_path / "plain", resume="best")
