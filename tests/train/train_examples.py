"""Small models, data and a short way to fit them, used by the tests in this folder and inside their ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from gpulayer_nb.plan.topology import RankPlace
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.records.record import EpochMetrics, Notice, Record, StepMetrics
from gpulayer_nb.train.fit import fit
from gpulayer_nb.train.fit_result import FitResult
from gpulayer_nb.train.module import Module

CPU = torch.device("cpu")


class Line(Module):
    """y = w·x, from w = 0, with SGD at 0.01."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = batch
        loss = ((self.w * x - y) ** 2).mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Seen(Line):
    """Remembers the values it was given and logs their mean; the weight stays near 0."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[float]] = []
        self.val_batches: list[list[float]] = []

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x = batch[0] if isinstance(batch, (list, tuple)) else batch
        self.batches.append(x.flatten().tolist())
        self.log("index", x.float().mean())
        return (self.w * 0.0).sum()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        x = batch[0] if isinstance(batch, (list, tuple)) else batch
        self.val_batches.append(x.flatten().tolist())
        self.log("val_index", x.float().mean())


class Script(Line):
    """Logs what `log(rank, step)` returns, a dict, in step 1, 2, …"""

    def __init__(self, log: Callable[[int, int], dict[str, Any]]) -> None:
        super().__init__()
        self.values = log

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        self.log_dict(self.values(self.global_rank, self.global_step + 1))
        return (self.w * batch[0]).mean() * 0.0


class Numbers(Dataset[Tensor]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor(float(index))


def line_loader(batch_size: int, **options: Any) -> DataLoader[Any]:
    """x = 1..8, y = 2x."""
    x = torch.arange(1.0, 9.0)
    return DataLoader(TensorDataset(x, 2 * x), batch_size=batch_size, **options)


def index_loader(length: int, batch_size: int | None, **options: Any) -> DataLoader[Any]:
    """The values 0, 1, 2, …"""
    return DataLoader(Numbers(length), batch_size=batch_size, **options)


def fit_here(rank: Any, module: Any, train_loader: Any, val_loader: Any = None, **given: Any) -> tuple[FitResult, list[Record]]:
    """Fit on this test rank. Keywords that `fit` knows go there, all others are options."""
    records: list[Record] = []
    known = ("should_stop", "callbacks", "loggers", "datamodule", "checkpoint_dir", "log_dir", "position")
    arguments = {name: given.pop(name) for name in known if name in given}
    place = RankPlace(rank.rank, rank.rank // rank.devices, rank.rank % rank.devices)
    result = fit(
        module, train_loader, val_loader, options=FitOptions(**given), place=place, world_size=rank.world_size,
        devices_per_node=rank.devices, device=CPU, report=records.append, **arguments,
    )  # fmt: skip
    return result, records


def step_series(records: list[Record], name: str) -> list[float | None]:
    """The values of one name for steps 1, 2, …"""
    return [value for r in records if isinstance(r, StepMetrics) for value in r.values.get(name, (None,) * len(r.steps))]


def epoch_series(records: list[Record], split: str, name: str) -> list[float]:
    return [r.values[name] for r in records if isinstance(r, EpochMetrics) and r.split == split]


def notices(records: list[Record]) -> list[str]:
    return [r.text for r in records if isinstance(r, Notice)]


class Alone:
    """The test process as the only rank."""

    rank, world_size, devices = 0, 1, 1


class Noisy(Numbers):
    """Each sample is a torch draw and a numpy draw."""

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor([torch.rand(()).item(), float(np.random.rand())])
