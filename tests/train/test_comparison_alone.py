"""Rows of docs/COMPARISON.md that one process shows: what Lightning really does, and what we do."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from train_examples import Alone, Line, Seen, fit_here, index_loader, line_loader

from gpulayer_nb.train.callbacks import ModelCheckpoint

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def lightning_fit(module: Any, loader: Any, *, ckpt_path: Path | None = None, **options: Any) -> Any:
    import lightning as L

    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = L.Trainer(accelerator="cpu", devices=1, max_epochs=1, **quiet, **options)
        trainer.fit(module, loader, ckpt_path=ckpt_path)
    return trainer


def make_module() -> Any:
    import lightning as L

    class Lit(L.LightningModule):
        def __init__(self, rate: float = 0.01) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.w = torch.nn.Parameter(torch.zeros(1))
            self.batches: list[list[float]] = []
            self.gradients: list[float] = []

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            self.batches.append(batch.flatten().tolist())
            self.log("own", batch.mean())
            return (self.w * batch).mean()

        def on_before_optimizer_step(self, optimizer: Any) -> None:
            self.gradients.append(self.w.grad.item())

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=self.hparams.rate)

    return Lit()


def test_the_short_rest_of_accumulated_batches_is_a_smaller_step_there_and_a_mean_here() -> None:
    theirs, ours = make_module(), make_module()
    lightning_fit(theirs, index_loader(6, 2), accumulate_grad_batches=2, enable_checkpointing=False)
    fit_here(Alone, ours, index_loader(6, 2), accumulate_grad_batches=2)
    assert theirs.gradients == [1.5, 2.25], "the last batch is 4, 5"
    assert ours.gradients == [1.5, 4.5]


def test_in_training_there_is_an_epoch_mean_here_and_there_only_if_asked() -> None:
    trainer = lightning_fit(make_module(), index_loader(6, 2), enable_checkpointing=False)
    assert {name: value.item() for name, value in trainer.callback_metrics.items()} == {"own": 4.5}, "the last step's"
    assert fit_here(Alone, make_module(), index_loader(6, 2))[0].metrics == {"own": 2.5}


def test_a_fit_resumed_within_an_epoch_begins_with_the_first_batch_there_and_goes_on_here(tmp_path: Path) -> None:
    import lightning as L

    saver = L.pytorch.callbacks.ModelCheckpoint(tmp_path, filename="mid", every_n_train_steps=3, save_top_k=-1)
    lightning_fit(make_module(), index_loader(12, 2), max_steps=3, callbacks=[saver])
    resumed = make_module()
    lightning_fit(resumed, index_loader(12, 2), ckpt_path=tmp_path / "mid.ckpt", enable_checkpointing=False)
    assert resumed.batches == [[0, 1], [2, 3], [4, 5]], "of six batches the last three never come"
    ours = Seen()
    fit_here(Alone, Seen(), index_loader(12, 2), max_steps=3, checkpoint_dir=tmp_path)
    fit_here(Alone, ours, index_loader(12, 2), checkpoint_dir=tmp_path, resume="last")
    assert ours.batches == [[6, 7], [8, 9], [10, 11]]


def test_both_files_load_with_weights_only_and_ours_holds_the_plain_models_state(tmp_path: Path) -> None:
    import lightning as L

    saver = L.pytorch.callbacks.ModelCheckpoint(tmp_path, filename="theirs")
    lightning_fit(make_module(), index_loader(4, 2), callbacks=[saver])
    theirs = torch.load(tmp_path / "theirs.ckpt", weights_only=True)
    assert {"state_dict", "hyper_parameters", "loops", "pytorch-lightning_version"} <= theirs.keys()
    fit_here(Alone, Line(), line_loader(4), callbacks=[ModelCheckpoint(tmp_path)])
    assert list(torch.load(tmp_path / "last.pt", weights_only=True)["model"]) == ["w"]


def test_defaults() -> None:
    import lightning as L

    trainer = L.Trainer(accelerator="cpu", devices=1, logger=False, enable_progress_bar=False, enable_model_summary=False)
    assert (trainer.num_sanity_val_steps, trainer.max_epochs) == (2, None), "None becomes 1000 in fit, with a warning"
