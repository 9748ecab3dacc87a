"""The list of runs: newest first, each read once, the dead not taken for alive."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from gpulayer_nb.process import start_ticks
from gpulayer_nb.records.record import RunEnded, StepMetrics
from gpulayer_nb.records.run_folder import RunFolder
from gpulayer_nb.server.refusals import NotThereError
from gpulayer_nb.server.run_rows import LISTED, RunList


def folder(root: Path, run_id: str, driver: int | None = None, **facts: Any) -> RunFolder:
    made = RunFolder.create(run_id, root)
    made.write_facts(
        {"run_id": run_id, "state": "starting", "mode": "train", "num_nodes": 1, "devices": 2, "begun": 10.0, **facts}
    )
    if driver is not None:
        (made.path / "driver.json").write_text(json.dumps({"pid": driver, "ticks": start_ticks(driver)}))
    return made


def rows(root: Path) -> list[dict[str, Any]]:
    return RunList(root).rows({}, lambda pid: "digits.ipynb" if pid == os.getpid() else None)


def test_the_newest_are_listed_first_and_not_all_of_them(tmp_path: Path) -> None:
    for number in range(LISTED + 5):
        folder(tmp_path, f"20260131-1423{number:02d}-3f2a", state="finished", ended=12.0)
    (tmp_path / "runs" / "notes").mkdir()
    listed = rows(tmp_path)
    assert len(listed) == LISTED
    assert listed[0]["id"] == f"20260131-1423{LISTED + 4:02d}-3f2a"
    assert listed[0]["elapsed"] == 2.0


def test_a_run_that_no_tap_hears_is_read_from_its_folder(tmp_path: Path) -> None:
    made = folder(tmp_path, "20260131-142305-3f2a", driver=os.getpid())
    made.append(StepMetrics(steps=(1, 2, 3), epochs=(0, 0, 0), values={"loss": (3.0, 2.0, float("nan"))}))
    row = rows(tmp_path)[0]
    assert (row["state"], row["step"], row["metric"], row["notebook"]) == ("running", 3, "loss", "digits.ipynb")
    assert row["metrics"] == {"loss": "nan"}
    json.dumps(row, allow_nan=False)
    made.ask_to_stop()
    assert rows(tmp_path)[0]["state"] == "stopping"


def test_a_run_whose_driver_is_gone_has_failed(tmp_path: Path) -> None:
    made = folder(tmp_path, "20260131-142305-3f2a", driver=os.getpid())
    (made.path / "driver.json").write_text(json.dumps({"pid": os.getpid(), "ticks": 1}))
    assert rows(tmp_path)[0]["state"] == "failed"


def test_a_run_that_has_just_been_made_is_not_taken_for_dead(tmp_path: Path) -> None:
    made = folder(tmp_path, "20260131-142305-3f2a")
    assert rows(tmp_path)[0]["state"] != "failed"
    os.utime(made.facts, (time.time() - 60, time.time() - 60))
    assert rows(tmp_path)[0]["state"] == "failed"


def test_facts_that_were_written_again_are_read_again(tmp_path: Path) -> None:
    runs = RunList(tmp_path)
    made = folder(tmp_path, "20260131-142305-3f2a", driver=os.getpid())
    assert runs.state(made) == "starting"
    made.append(RunEnded(state="failed"))
    made.write_facts({"state": "failed", "error": "ValueError: bad sample\nmore", "ended": 12.5, "begun": 10.0})
    os.utime(made.facts, (1, 1))
    row = runs.rows({}, lambda pid: None)[0]
    assert (row["state"], row["error"], row["elapsed"]) == ("failed", "ValueError: bad sample", 2.5)


def test_a_run_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(NotThereError, match="There is no run 20260131-142305-3f2a on this machine"):
        RunList(tmp_path).find("20260131-142305-3f2a")
    with pytest.raises(NotThereError):
        RunList(tmp_path).find("../../etc")
