"""One module, data and seed under Lightning's own Trainer and under ours: the same curve, the same order of hooks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from train_examples import Alone, fit_here, step_series

pytestmark = pytest.mark.slow


def digits(length: int = 64) -> Any:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(length, 8, generator=generator)
    return torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())


def make_module() -> Any:
    import lightning as L

    class Net(L.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(3)
            self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
            self.losses: list[float] = []

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.losses.append(loss.item())
            self.log("loss", loss, sync_dist=True)
            return loss

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val_loss", torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1]), sync_dist=True)

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "epoch"}}

    return Net()


def lightning_fit(module: Any, *loaders: Any, **options: Any) -> Any:
    import os
    import warnings

    import lightning as L

    os.environ.update(TORCHELASTIC_RUN_ID="test", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = L.Trainer(accelerator="cpu", num_sanity_val_steps=0, use_distributed_sampler=True, **quiet, **options)
        trainer.fit(module, *loaders)
    return trainer


@pytest.mark.parametrize(
    "options",
    [{}, {"accumulate_grad_batches": 2}, {"gradient_clip_val": 0.05}, {"precision": "bf16-mixed"}],
    ids=["plain", "accumulated", "clipped", "bf16"],
)
def test_the_loss_curve_is_lightnings(ranks: Any, options: dict[str, Any]) -> None:
    def loaders() -> Any:
        make = torch.utils.data.DataLoader
        return make(digits(), batch_size=4, shuffle=True), make(digits(32), batch_size=4)

    def theirs(rank: Any) -> Any:
        import lightning as L

        L.seed_everything(0, verbose=False)
        module = make_module()
        trainer = lightning_fit(module, *loaders(), max_epochs=3, devices=2, strategy="ddp", **options)
        return module.losses, float(trainer.callback_metrics["val_loss"])

    def ours(rank: Any) -> Any:
        module = make_module()
        result, records = fit_here(rank, module, *loaders(), max_epochs=3, seed=0, **options)
        return module.losses, result.metrics["val_loss"], step_series(records, "loss")

    lightning, gpulayer = ranks(2, theirs, seconds=120), ranks(2, ours, seconds=120)
    for their_rank, our_rank in zip(lightning, gpulayer, strict=True):
        assert our_rank[0] == pytest.approx(their_rank[0], abs=1e-5), "each rank's own losses, batch by batch"
        assert our_rank[1] == pytest.approx(their_rank[1], abs=1e-5)
    if "accumulate_grad_batches" not in options:
        means = [(a + b) / 2 for a, b in zip(lightning[0][0], lightning[1][0], strict=True)]
        assert gpulayer[0][2] == pytest.approx(means, abs=1e-5), "every step's mean over ranks"


HOOKS = [
    "setup", "teardown", "training_step", "validation_step", "on_before_zero_grad", "on_before_backward", "on_after_backward",
    "on_before_optimizer_step", "on_fit_start", "on_fit_end", "on_train_start", "on_train_end", "on_train_epoch_start",
    "on_train_epoch_end", "on_train_batch_start", "on_train_batch_end", "on_validation_start", "on_validation_end",
    "on_validation_epoch_start", "on_validation_epoch_end", "on_validation_batch_start", "on_validation_batch_end",
]  # fmt: skip


def test_hooks_come_in_lightnings_order_with_lightnings_arguments() -> None:
    def noting(called: list[tuple[str, int]]) -> Any:
        base = type(make_module())

        def hook(name: str) -> Any:
            def note(self: Any, *arguments: Any, **named: Any) -> Any:
                called.append((name, len(arguments) + len(named)))
                return getattr(base, name)(self, *arguments, **named) if name.endswith("_step") and name[0] != "o" else None

            return note

        made = type("Noting", (base,), {name: hook(name) for name in HOOKS})
        made.training_step = lambda self, batch, batch_idx: hook("training_step")(self, batch, batch_idx)
        made.validation_step = lambda self, batch, batch_idx: hook("validation_step")(self, batch, batch_idx)
        return made()

    theirs: list[tuple[str, int]] = []
    ours: list[tuple[str, int]] = []

    def loaders() -> Any:
        return torch.utils.data.DataLoader(digits(8), batch_size=4), torch.utils.data.DataLoader(digits(4), batch_size=4)

    import lightning as L

    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    L.Trainer(accelerator="cpu", devices=1, max_epochs=1, num_sanity_val_steps=0, **quiet).fit(noting(theirs), *loaders())
    fit_here(Alone, noting(ours), *loaders())
    # The one difference, told in docs/COMPARISON.md: a module's training epoch ends before its validation, not after it.
    end = ("on_train_epoch_end", 0)
    assert [call for call in ours if call != end] == [call for call in theirs if call != end]
    assert ours.index(end) == ours.index(("on_validation_start", 0)) - 1


def test_hooks_of_callbacks_take_lightnings_arguments() -> None:
    import inspect

    import lightning as L

    from gpulayer_nb.train.callback import Callback

    checked = []
    for name, hook in vars(Callback).items():
        theirs = getattr(L.Callback, name, None)
        if name.startswith("_") or theirs is None:
            continue
        needed = [p for p in inspect.signature(theirs).parameters.values() if p.default is inspect.Parameter.empty]
        own = list(inspect.signature(hook).parameters)
        assert len(own) == len(needed), f"{name}{tuple(own)} and {tuple(p.name for p in needed)}"
        assert own[3:] == [p.name for p in needed[3:]] or name == "load_state_dict", f"{name}: names may be used as keywords"
        checked.append(name)
    missing = [name for name in vars(Callback) if not name.startswith("_") and name not in checked]
    assert missing == [], "every hook exists in Lightning too"
