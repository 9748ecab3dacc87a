"""Rank 0 alone, or rank 0 of each worker first."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from train_examples import Seen, fit_here, index_loader

from gpulayer_nb.errors import GpuLayerError
from gpulayer_nb.train.data_module import DataModule
from gpulayer_nb.train.rank_zero import rank_zero_first, rank_zero_only


def test_rank_zero_only_runs_on_global_rank_zero(ranks: Any) -> None:
    @rank_zero_only
    def who() -> str:
        return "me"

    assert ranks(4, lambda rank: who(), devices=2) == ["me", None, None, None]
    assert who() == "me", "one plain process is rank 0"


def test_rank_zero_of_each_worker_is_first_every_time(ranks: Any, tmp_path: Path) -> None:
    def look(rank: Any) -> list[bool]:
        found = []
        node = rank.rank // rank.devices
        for visit in range(3):
            file = tmp_path / f"{node}-{visit}"
            with rank_zero_first():
                found.append(file.exists())
                if not file.exists():
                    time.sleep(0.05)
                    file.write_text("here")
        return found

    first, waiting = [False] * 3, [True] * 3
    assert ranks(4, look, devices=2) == [first, waiting, first, waiting]


def test_the_others_are_told_when_the_first_has_failed(errors_of: Any) -> None:
    def fail(rank: Any) -> None:
        with rank_zero_first():
            raise OSError("disk full")

    errors = errors_of(2, fail, seconds=15)
    assert isinstance(errors[0], OSError)
    assert isinstance(errors[1], GpuLayerError)
    assert "waited for local rank 0 of its worker, which failed" in str(errors[1])


class Prepared(DataModule):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare_data(self) -> None:
        with (self.folder / f"prepared-{self.trainer.node_rank}").open("a") as file:
            file.write(f"{self.trainer.global_rank}\n")

    def setup(self, stage: str) -> None:
        assert (self.folder / f"prepared-{self.trainer.node_rank}").exists()
        self.stage = stage

    def train_dataloader(self) -> Any:
        return index_loader(8, 1)

    def val_dataloader(self) -> Any:
        return index_loader(5, 2)

    def teardown(self, stage: str) -> None:
        self.torn_down = stage


def test_a_data_module_is_prepared_once_per_worker_and_set_up_everywhere(ranks: Any, tmp_path: Path) -> None:
    def train(rank: Any) -> Any:
        data = Prepared(tmp_path)
        result, _ = fit_here(rank, Seen(), None, datamodule=data)
        return result.metrics["val_index"], data.stage, data.torn_down, "trainer" in data.__dict__

    assert ranks(4, train, devices=2) == [(2.0, "fit", "fit", False)] * 4
    assert {p.name: p.read_text() for p in tmp_path.glob("prepared-*")} == {"prepared-0": "0\n", "prepared-1": "2\n"}
