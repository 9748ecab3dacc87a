"""What cannot be trained rightly is refused before the first step, with the next step to take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler
from train_examples import Alone, Line, Numbers, Seen, fit_here, index_loader, line_loader, notices

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.callback import Callback
from gpulayer_nb.train.callbacks import EarlyStopping


@pytest.mark.parametrize(
    "loaders", [lambda: [line_loader(2), line_loader(2)], lambda: {"a": line_loader(2), "b": line_loader(2)}]
)
def test_several_training_loaders_are_refused_with_what_to_do(loaders: Any) -> None:
    with pytest.raises(UsageError, match=r"2 training loaders are given, as a (list|dict); one is supported.*ConcatDataset"):
        fit_here(Alone, Line(), loaders())


def test_a_dict_is_no_loader() -> None:
    with pytest.raises(UsageError, match="the training loader is a dict, which cannot be iterated for batches"):
        fit_here(Alone, Line(), {"x": torch.zeros(3)})


def test_an_optimizer_that_needs_a_closure_is_refused_by_name() -> None:
    class Newton(Line):
        def configure_optimizers(self) -> Any:
            return torch.optim.LBFGS(self.parameters())

    with pytest.raises(UsageError, match="LBFGS evaluates the loss several times in a step"):
        fit_here(Alone, Newton(), line_loader(2))


def test_a_limit_that_leaves_no_batch_says_so() -> None:
    with pytest.raises(UsageError, match=r"limit_train_batches=0\.1 leaves none of this rank's 4 batches"):
        fit_here(Alone, Line(), line_loader(2), limit_train_batches=0.1)


def test_a_validation_loader_without_a_validation_step_is_said_to_be_unused() -> None:
    result, records = fit_here(Alone, Line(), line_loader(2), line_loader(2))
    assert notices(records) == ["the validation loader is not used: Line has no validation_step(batch, batch_idx)."]
    assert result.metrics.keys() == {"loss"}


@pytest.mark.parametrize(
    ("callback", "words"),
    [
        (EarlyStopping, r"callbacks: EarlyStopping is a class\. Next: make one, `EarlyStopping\(…\)`"),
        (3, r"callbacks: a int has none of a callback's methods.*Next: subclass glt\.Callback"),
        (SimpleNamespace(on_train_start=print), "a SimpleNamespace has none of a callback's methods"),
    ],
)
def test_what_is_no_callback_is_refused(callback: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        fit_here(Alone, Line(), line_loader(2), callbacks=[callback])


def test_any_object_with_a_hook_will_do_and_an_empty_callback_too(tmp_path: Any) -> None:
    class Duck:
        epochs = 0

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            self.epochs += 1

    duck = Duck()
    fit_here(Alone, Line(), line_loader(2), callbacks=[duck, Callback()], checkpoint_dir=tmp_path, max_epochs=2)
    fit_here(Alone, Line(), line_loader(2), callbacks=[duck, Callback()], checkpoint_dir=tmp_path, max_epochs=3, resume="last")
    assert duck.epochs == 3


@pytest.mark.slow
def test_lightnings_own_callbacks_are_refused_and_a_users_subclass_of_its_base_works() -> None:
    from lightning.pytorch import callbacks as theirs

    class Patient(theirs.EarlyStopping):
        pass

    class Counts(theirs.Callback):
        batches = 0

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            self.batches += 1

    for callback, words in (
        (
            Patient(monitor="loss"),
            r"Lightning's EarlyStopping works in Lightning's own Trainer only\. Next: use glt\.EarlyStopping\.",
        ),
        (theirs.RichProgressBar(), "RichProgressBar works in Lightning's own Trainer only. Next: leave it out"),
    ):
        with pytest.raises(UsageError, match=words):
            fit_here(Alone, Line(), line_loader(2), callbacks=[callback])
    counts = Counts()
    fit_here(Alone, Line(), line_loader(2), callbacks=[counts])
    assert counts.batches == 4


@pytest.mark.parametrize("world_size", [2, 4])
def test_a_distributed_sampler_that_repeats_validation_samples_is_warned_of(ranks: Any, world_size: int) -> None:
    def train(rank: Any) -> Any:
        data = Numbers(world_size + 1)
        val = DataLoader(data, sampler=DistributedSampler(data, world_size, rank.rank, shuffle=False))
        _, records = fit_here(rank, Seen(), index_loader(4, 1), val)
        return notices(records)

    repeated = world_size - 1
    words = f"gives {repeated} sample{'' if repeated == 1 else 's'} twice, so the means are not exact"
    assert words in ranks(world_size, train)[0][0]
