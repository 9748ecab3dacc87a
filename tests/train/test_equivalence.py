"""N ranks give what one process gives: random shapes of data, batches and ranks against a plain loop of torch alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler, TensorDataset, WeightedRandomSampler
from train_examples import epoch_series, fit_here

from gpulayer_nb.train.module import Module

SEED = 5


@dataclass(frozen=True)
class Case:
    samples: int
    batch_size: int
    world_size: int
    sampler: str
    accumulate: int
    drop_last: bool
    epochs: int
    val_samples: int
    double: bool


cases = st.builds(
    Case,
    samples=st.integers(1, 30),
    batch_size=st.integers(1, 5),
    world_size=st.integers(1, 4),
    sampler=st.sampled_from(["sequential", "shuffle", "weighted", "own"]),
    accumulate=st.integers(1, 3),
    drop_last=st.booleans(),
    epochs=st.integers(1, 2),
    val_samples=st.integers(1, 11),
    double=st.booleans(),
)


class Backwards(Sampler[int]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.length - 1, -1, -1))

    def __len__(self) -> int:
        return self.length


class Regression(Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1, dtype=dtype)
        nn.init.constant_(self.layer.weight, 0.25)
        nn.init.zeros_(self.layer.bias)
        self.seen: list[int] = []

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y, index = batch
        self.seen += index.tolist()
        loss = ((self.layer(x) - y) ** 2).mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        x, y, _ = batch
        self.log("val_loss", ((self.layer(x) - y) ** 2).mean())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def data(length: int, dtype: torch.dtype) -> TensorDataset:
    generator = torch.Generator().manual_seed(length)
    x = torch.randn(length, 2, dtype=dtype, generator=generator)
    return TensorDataset(x, x.sum(1, keepdim=True) + 0.5, torch.arange(length))


def weights(length: int) -> list[float]:
    return [1.0 + k % 3 for k in range(length)]


def loader(case: Case, dataset: TensorDataset) -> DataLoader[Any]:
    options: dict[str, Any] = {"shuffle": case.sampler == "shuffle"}
    if case.sampler == "weighted":
        options = {"sampler": WeightedRandomSampler(weights(case.samples), case.samples + 3)}
    elif case.sampler == "own":
        options = {"sampler": Backwards(case.samples)}
    return DataLoader(dataset, batch_size=case.batch_size, drop_last=case.drop_last, **options)


def order(case: Case, epoch: int) -> list[int]:
    """The samples of an epoch over all ranks: as torch draws them, padded from the start or cut, as the rule says."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED + epoch)
        drawn = {
            "sequential": lambda: list(range(case.samples)),
            "own": lambda: list(Backwards(case.samples)),
            "shuffle": lambda: torch.randperm(case.samples, generator=torch.Generator().manual_seed(SEED + epoch)).tolist(),
            "weighted": lambda: list(WeightedRandomSampler(weights(case.samples), case.samples + 3)),
        }[case.sampler]()
    group = case.world_size * (case.batch_size if case.drop_last else 1)
    total = len(drawn) // group * group if case.drop_last else -(-len(drawn) // group) * group
    return [drawn[place % len(drawn)] for place in range(total)]


def one_process(case: Case, dtype: torch.dtype) -> tuple[Regression, Counter[int], list[float]]:
    """Global batches, one after the other, in a loop that knows nothing of this library."""
    model, counts, val = Regression(dtype), Counter(), []
    optimizer = model.configure_optimizers()
    training, validation = data(case.samples, dtype).tensors, data(case.val_samples, dtype).tensors
    for epoch in range(case.epochs):
        samples = order(case, epoch)
        counts.update(samples)
        size = case.batch_size * case.world_size
        batches = [samples[start : start + size] for start in range(0, len(samples), size)]
        for first in range(0, len(batches), case.accumulate):
            group = batches[first : first + case.accumulate]
            optimizer.zero_grad()
            for batch in group:
                loss = ((model.layer(training[0][batch]) - training[1][batch]) ** 2).mean()
                (loss / len(group)).backward()
            optimizer.step()
        with torch.no_grad():
            val.append(float(((model.layer(validation[0]) - validation[1]) ** 2).double().mean()))
    return model, counts, val


def check(ranks: Callable[..., list[Any]], case: Case) -> None:
    assume(order(case, 0))  # else there is no batch to train on, which is refused
    dtype = torch.float64 if case.double else torch.float32

    def train(rank: Any) -> Any:
        model = Regression(dtype)
        options = {"max_epochs": case.epochs, "accumulate_grad_batches": case.accumulate, "seed": SEED}
        val_loader = DataLoader(data(case.val_samples, dtype), batch_size=case.batch_size)
        _, records = fit_here(rank, model, loader(case, data(case.samples, dtype)), val_loader, **options)
        own = torch.cat([p.detach().flatten() for p in model.parameters()])
        return own.double().tolist(), model.seen, epoch_series(records, "val", "val_loss")

    results = ranks(case.world_size, train)
    model, counts, val = one_process(case, dtype)
    expected = torch.cat([p.detach().flatten() for p in model.parameters()]).double().tolist()
    near = 1e-9 if case.double else 1e-5
    for own, _, _ in results:
        assert own == pytest.approx(expected, abs=near, rel=near), "every rank has one process's weights"
    assert Counter(k for _, seen, _ in results for k in seen) == counts, "every sample is seen as often as the rule says"
    assert results[0][2] == pytest.approx(val, rel=1e-12 if case.double else 1e-5), "validation is one process's"


quiet = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}


@settings(max_examples=25, derandomize=True, **quiet)
@given(case=cases)
def test_ranks_equal_one_process_with_the_global_batch(ranks: Any, case: Case) -> None:
    check(ranks, case)


@pytest.mark.slow
@settings(max_examples=200, **quiet)
@given(case=cases)
def test_ranks_equal_one_process_with_the_global_batch_in_many_more_cases(ranks: Any, case: Case) -> None:
    check(ranks, case)
