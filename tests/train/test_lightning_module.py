"""What a LightningModule asks of its trainer beyond a loss, on our ranks; what would be passed over is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset
from train_examples import fit_here, step_series

from gpulayer_nb.errors import UsageError
from gpulayer_nb.records.record import StepMetrics

pytestmark = pytest.mark.slow


def loader() -> DataLoader[Any]:
    x = torch.arange(1.0, 9.0).reshape(8, 1)
    return DataLoader(TensorDataset(x, 2 * x), batch_size=2)


def module_class() -> Any:
    import lightning as L

    class Lit(L.LightningModule):
        def __init__(self, rate: float = 0.01) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(1, 1, bias=False)
            torch.nn.init.zeros_(self.layer.weight)
            self.found: dict[str, Any] = {}

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = ((self.layer(batch[0]) - batch[1]) ** 2).mean()
            self.log("first", 7.0, rank_zero_only=True)
            self.log("loss", loss, True, sync_dist=True, reduce_fx=torch.mean)
            return loss

        def on_train_epoch_end(self) -> None:
            self.print("printed by", self.global_rank)
            self.found = {
                "rate": self.optimizers().param_groups[0]["lr"],
                "schedule": type(self.lr_schedulers()).__name__,
                "gathered": self.all_gather(torch.tensor([float(self.global_rank)])).tolist(),
                "place": (self.current_epoch, self.global_step, self.trainer.world_size, self.trainer.is_global_zero),
                "logger": self.logger,
                "device": str(self.device),
                "steps": self.trainer.estimated_stepping_batches,
            }

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.rate)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 100)]

    return Lit


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_optimizers_schedules_gathering_and_places_are_there(ranks: Any, world_size: int) -> None:
    def train(rank: Any) -> Any:
        module = module_class()()
        _, records = fit_here(rank, module, loader(), max_epochs=2)
        left = [name for name in ("log", "optimizers", "lr_schedulers", "all_gather") if name in module.__dict__]
        return module.found, records, left, module._trainer

    results = ranks(world_size, train, seconds=120)
    steps = 8 // world_size
    for rank, (found, _, left, trainer) in enumerate(results):
        assert (left, trainer) == ([], None)
        assert found.pop("place") == (1, steps, world_size, rank == 0)
        assert found.pop("gathered") == ([0.0] if world_size == 1 else [[float(r)] for r in range(world_size)])
        assert found == {"rate": 0.01, "schedule": "StepLR", "logger": None, "device": "cpu", "steps": steps}
    records = results[0][1]
    assert step_series(records, "first") == [7.0] * steps
    counts = {n for r in records if isinstance(r, StepMetrics) for n in r.ranks.get("first", ())}
    assert counts == (set() if world_size == 1 else {1}), "rank_zero_only is rank 0's own value"


def test_sums_and_methods_that_this_trainer_does_not_call_are_refused(ranks: Any) -> None:
    def refused(rank: Any) -> list[str]:
        base = module_class()

        class Sums(base):  # type: ignore[valid-type,misc]
            def training_step(self, batch: Any, batch_idx: int) -> Any:
                self.log("n", 1.0, reduce_fx="sum")

        class Stops(base):  # type: ignore[valid-type,misc]
            def configure_callbacks(self) -> Any:
                return []

        class Downloads(base):  # type: ignore[valid-type,misc]
            def prepare_data(self) -> None: ...

        class Late(base):  # type: ignore[valid-type,misc]
            def configure_model(self) -> None: ...

        messages = []
        for kind in (Sums, Stops, Downloads, Late):
            with pytest.raises(UsageError) as caught:
                fit_here(rank, kind(), loader())
            messages.append(str(caught.value))
        return messages

    sums, stops, downloads, late = ranks(1, refused, seconds=120)[0]
    assert sums.startswith("log('n', …, reduce_fx='sum'): only means are kept here.")
    assert "self.trainer.gather" in sums
    assert stops == (
        "Stops has configure_callbacks(), which this Trainer does not call. Next: give the callbacks to the Trainer, "
        "`callbacks=[…]`."
    )
    assert downloads.endswith("Next: put it into a data module.")
    assert late.endswith("Next: make the layers in __init__.")
