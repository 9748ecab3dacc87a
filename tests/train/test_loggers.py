"""Loggers are told every step's mean once, on rank 0, and go on in a resumed fit where the interrupted one was."""

from __future__ import annotations

import csv
import importlib.util
import pickle
from pathlib import Path
from typing import Any

import pytest
from train_examples import Alone, Line, Seen, fit_here, index_loader, line_loader

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.csv_logger import CSVLogger
from gpulayer_nb.train.logger import Logger, check_loggers
from gpulayer_nb.train.tensorboard_logger import TensorBoardLogger


def rows(folder: Path) -> list[dict[str, str]]:
    with next(folder.rglob("metrics.csv")).open(newline="") as file:
        return list(csv.DictReader(file))


class Told:
    """The least that is a logger."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def log_hyperparams(self, params: dict[str, Any]) -> None:
        self.calls.append(("params", params))

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.calls.append((step, metrics))

    def finalize(self, status: str) -> None:
        self.calls.append(status)


def test_three_methods_are_enough_and_only_rank_zero_is_told(ranks: Any) -> None:
    def train(rank: Any) -> list[Any]:
        told = Told()
        fit_here(rank, Seen(), index_loader(4, 1), index_loader(4, 1), loggers=[told], accumulate_grad_batches=1)
        return told.calls

    first, second = ranks(2, train)
    assert second == []
    assert first == [
        ("params", {"max_epochs": 1, "world_size": 2}),
        (1, {"epoch": 0.0, "index": 0.5}),
        (2, {"epoch": 0.0, "index": 2.5}),
        (2, {"epoch": 0.0, "index_epoch": 1.5}),
        (2, {"epoch": 0.0, "val_index": 1.5}),
        "finished",
    ]


def test_a_fit_that_fails_closes_its_loggers_as_failed() -> None:
    class Failing(Line):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            raise ValueError("no")

    told = Told()
    with pytest.raises(ValueError, match="no"):
        fit_here(Alone, Failing(), line_loader(2), loggers=[told])
    assert told.calls[-1] == "failed"


def test_the_csv_has_a_line_per_step_and_columns_for_names_that_come_late(tmp_path: Path) -> None:
    fit_here(Alone, Seen(), index_loader(2, 1), index_loader(2, 1), max_epochs=2, loggers=[CSVLogger(tmp_path)])
    found = rows(tmp_path / "csv" / "version_0")
    assert [r["step"] for r in found if r["index"]] == ["1", "2", "3", "4"]
    assert [r["val_index"] for r in found if r["val_index"]] == ["0.5", "0.5"]
    fit_here(Alone, Seen(), index_loader(2, 1), loggers=[CSVLogger(tmp_path)])
    assert (tmp_path / "csv" / "version_1" / "metrics.csv").exists(), "each fit has its own folder"


def test_a_resumed_fit_continues_the_lines_of_the_interrupted_one(tmp_path: Path) -> None:
    fit_here(Alone, Seen(), index_loader(4, 1), checkpoint_dir=tmp_path / "c", loggers=[CSVLogger(tmp_path)])
    again = {"max_epochs": 2, "checkpoint_dir": tmp_path / "c", "resume": "last"}
    fit_here(Alone, Seen(), index_loader(4, 1), **again, loggers=[CSVLogger(tmp_path)])
    found = rows(tmp_path / "csv" / "version_1")
    assert [r["step"] for r in found if r["index"]] == [str(step) for step in range(1, 9)]


@pytest.mark.slow  # with the real package, which plain tests can do without
def test_tensorboard_reads_the_scalars_back(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    fit_here(Alone, Seen(), index_loader(2, 1), index_loader(2, 1), loggers=[TensorBoardLogger(tmp_path)])
    events = EventAccumulator(str(tmp_path / "tensorboard" / "version_0"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("index")] == [(1, 0.0), (2, 1.0)]
    assert [(e.step, e.value) for e in events.Scalars("val_index")] == [(2, 0.5)]


def test_tensorboard_that_is_not_installed_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="needs a package that is not installed. Next: `pip install tensorboard`"):
        TensorBoardLogger()


def test_what_is_no_logger_is_refused_and_loggers_travel() -> None:
    with pytest.raises(UsageError, match=r"a list has no|a str has no log_hyperparams, log_metrics, finalize"):
        check_loggers("csv")
    with pytest.raises(UsageError, match="the csv logger does not know where to write"):
        fit_here(Alone, Seen(), index_loader(2, 1), loggers=[CSVLogger()])
    assert check_loggers(None) == check_loggers(False) == ()
    assert isinstance(check_loggers(True)[0], CSVLogger)
    assert isinstance(pickle.loads(pickle.dumps(CSVLogger("x"))), Logger)
