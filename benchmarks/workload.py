"""Models and data of the benchmarks, the same for us and for the peers. Imported by name in every process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import TensorDataset

RANKS = 4
CLASSES = 10
BATCH_SIZE = 16  # per rank
STEPS_PER_EPOCH = 500
LEARNING_RATE = 0.01


@dataclass(frozen=True)
class Workload:
    """A model and the shape of one sample; `warm_up` optimizer steps are not timed, the `timed` ones after them are.

    A step takes `accumulate` batches; `precision` is "32" or "bf16-mixed".
    """

    make_model: Callable[[], nn.Module]
    sample_shape: tuple[int, ...]
    warm_up: int
    timed: int
    accumulate: int = 1
    precision: str = "32"

    def train_set(self) -> TensorDataset:
        """Random samples, as many as 4 ranks need for an epoch of `STEPS_PER_EPOCH` batches each."""
        generator = torch.Generator().manual_seed(0)
        count = RANKS * BATCH_SIZE * STEPS_PER_EPOCH
        samples = torch.randn(count, *self.sample_shape, generator=generator)
        return TensorDataset(samples, torch.randint(CLASSES, (count,), generator=generator))


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, CLASSES))


def _cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, CLASSES),
    )  # fmt: skip


WORKLOADS = {
    "mlp": Workload(_mlp, (64,), warm_up=200, timed=2000),
    "cnn": Workload(_cnn, (1, 8, 8), warm_up=200, timed=1000),
    "mlp_accumulated": Workload(_mlp, (64,), warm_up=50, timed=500, accumulate=4),
    "mlp_bf16": Workload(_mlp, (64,), warm_up=200, timed=1500, precision="bf16-mixed"),
}
