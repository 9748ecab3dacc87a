"""The rows of docs/COMPARISON.md: what Lightning really does with the same data on 2 ranks, and what we do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, WeightedRandomSampler
from train_examples import Numbers, Seen, fit_here, index_loader, notices, step_series

pytestmark = pytest.mark.slow

UNEVEN = [[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [9.0]]  # each rank's batches: 7 samples with the mean 24/7
GROUPS = [[0, 1], [2, 3], [4, 5], [6, 7]]


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.arange(8.0))


class Given:
    """A rank's own batches, not a DataLoader."""

    def __init__(self, batches: list[list[float]]) -> None:
        self.batches = [torch.tensor(batch) for batch in batches]

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


class GroupSampler:
    """A batch sampler with an __init__ of its own."""

    def __init__(self, groups: list[list[int]]) -> None:
        self.groups = groups

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)


def weighted_loader() -> DataLoader[Any]:
    return DataLoader(Numbers(8), batch_size=2, sampler=WeightedRandomSampler([1.0] * 8, 8, replacement=False))


def lightning_facts(rank: Any) -> dict[str, Any]:  # one import of Lightning for all of it
    import lightning as L
    from test_side_by_side import lightning_fit

    class Lit(L.LightningModule):
        def __init__(self, rate: float = 0.01) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.w = torch.nn.Parameter(torch.zeros(1))
            self.norm = torch.nn.BatchNorm1d(1)
            self.batches: list[list[float]] = []

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            self.batches.append(batch.flatten().tolist())
            self.log("own", batch.mean())
            self.log("shared", batch.mean(), sync_dist=True)
            return (self.w * batch).mean() + self.norm(batch.reshape(-1, 1)).mean() * 0

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val", batch.mean(), sync_dist=True, on_epoch=True)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=self.hparams.rate)

    options: dict[str, Any] = {"devices": 2, "strategy": "ddp"}
    facts: dict[str, Any] = {}

    def run(*loaders: Any, kind: Any = Lit, **more: Any) -> Any:
        L.seed_everything(1, verbose=False)
        module = kind()
        return module, lightning_fit(module, *loaders, **{"max_epochs": 1, **options, **more})

    def refusal(*loaders: Any, **more: Any) -> str:
        try:
            run(*loaders, **more)
        except Exception as error:  # noqa: BLE001  # which one is the question
            return f"{type(error).__name__}: {error}"
        return ""

    module, trainer = run(index_loader(8, 2), index_loader(3, 1))
    facts["padded validation"] = float(trainer.callback_metrics["val"])
    facts["own step"] = float(trainer.callback_metrics["own"])
    facts["shared step"] = float(trainer.callback_metrics["shared"])
    facts["names"] = sorted(trainer.callback_metrics)
    facts["uneven validation"] = float(run(index_loader(4, 2), Given(UNEVEN[rank.rank]))[1].callback_metrics["val"])
    module, _ = run(index_loader(12, 2), accumulate_grad_batches=2)
    facts["running mean"] = round(float(module.norm.running_mean), 6)
    L.seed_everything(rank.rank, verbose=False)
    module = Lit()
    lightning_fit(module, weighted_loader(), max_epochs=1, **options)
    facts["weighted"] = [x for batch in module.batches for x in batch]
    facts["stream"] = [x for batch in run(DataLoader(Stream(), batch_size=2))[0].batches for x in batch]
    facts["groups"] = refusal(DataLoader(Numbers(8), batch_sampler=GroupSampler(GROUPS)))

    class TwoHeads(Lit):
        def __init__(self) -> None:
            super().__init__()
            self.unused = torch.nn.Linear(1, 1)

    facts["unused"] = refusal(index_loader(16, 2), kind=TwoHeads)
    return facts


@pytest.fixture(scope="module")
def lightning(rank_server: Any, tmp_path_factory: Any) -> list[dict[str, Any]]:
    return rank_server.run(tmp_path_factory.mktemp("ranks"), 2, lightning_facts, 2, 200)


def ours(ranks: Any, *loaders: Any, **options: Any) -> Any:
    """Each rank's samples, rank 0's metrics, step values and notices."""

    def train(rank: Any) -> Any:
        model = Seen()
        given = [loader(rank) if callable(loader) else loader for loader in loaders]
        result, records = fit_here(rank, model, *given, **options)
        return [x for batch in model.batches for x in batch], result.metrics, step_series(records, "index"), notices(records)

    return ranks(2, train)


def test_validation_that_does_not_divide_is_padded_there_and_exact_here(ranks: Any, lightning: Any) -> None:
    assert lightning[0]["padded validation"] == 0.75, "samples 0, 1, 2 and 0 again"
    assert ours(ranks, index_loader(8, 2), index_loader(3, 1))[0][1]["val_index"] == 1.0


def test_a_steps_value_is_rank_zeros_there_unless_asked_and_the_mean_over_ranks_here(ranks: Any, lightning: Any) -> None:
    own = [facts["own step"] for facts in lightning]
    assert own[0] != own[1], "each rank's own last batch"
    assert {facts["shared step"] for facts in lightning} == {sum(own) / 2}
    assert "own_epoch" not in lightning[0]["names"], "no epoch mean in training unless asked"


def test_a_loader_in_order_is_shuffled_there_and_stays_in_order_here(ranks: Any, lightning: Any) -> None:
    in_order = 5.5  # the mean of 4, 5, 6 and 7, the last batches of both ranks
    assert lightning[0]["shared step"] != in_order
    assert ours(ranks, index_loader(8, 2))[0][2][-1] == in_order


def test_means_of_an_odd_number_of_samples_are_counted_in_whole_numbers_there(ranks: Any, lightning: Any) -> None:
    assert lightning[0]["uneven validation"] == 4.0, "12 samples' worth over 3.5 samples a rank, cut to 3"
    validate = [index_loader(4, 2), lambda rank: Given(UNEVEN[rank.rank])]
    assert ours(ranks, *validate)[0][1]["val_index"] == pytest.approx(24 / 7)


def test_draws_of_ranks_with_seeds_of_their_own_overlap_there_and_never_here(ranks: Any, lightning: Any) -> None:
    def draws(rank: Any) -> list[float]:
        torch.manual_seed(rank.rank)
        model = Seen()
        sampler = WeightedRandomSampler([1.0] * 8, 8, replacement=False)
        fit_here(rank, model, DataLoader(Numbers(8), batch_size=1, sampler=sampler))
        return [x for batch in model.batches for x in batch]

    theirs = [x for facts in lightning for x in facts["weighted"]]
    assert len(set(theirs)) < 8, "some samples come twice, others never"
    assert sorted(x for own in ranks(2, draws) for x in own) == list(range(8))


def test_a_stream_is_read_in_whole_by_every_rank_there_and_shared_out_here(ranks: Any, lightning: Any) -> None:
    assert [sorted(facts["stream"]) for facts in lightning] == [list(range(8))] * 2
    results = ours(ranks, DataLoader(Stream(), batch_size=2))
    assert sorted(x for seen, *_ in results for x in seen) == list(range(8))


def test_a_batch_sampler_with_an_init_of_its_own_is_an_error_there(ranks: Any, lightning: Any) -> None:
    assert "can't inject a (distributed) sampler" in lightning[0]["groups"], lightning[0]["groups"]
    results = ours(ranks, DataLoader(Numbers(8), batch_sampler=GroupSampler(GROUPS)))
    assert sorted(x for seen, *_ in results for x in seen) == list(range(8))


def test_unused_parameters_are_named_by_number_there(lightning: Any) -> None:
    assert lightning[0]["unused"].startswith("RuntimeError"), lightning[0]["unused"]
    assert "unused.weight" not in lightning[0]["unused"]


def test_buffers_differ_between_ranks_at_the_end_there(lightning: Any) -> None:
    assert lightning[0]["running mean"] != lightning[1]["running mean"]
