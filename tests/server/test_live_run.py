"""A run that is on, however long: how it stands, in bounded memory, also for who comes late."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from gpulayer_nb.records.record import (
    EngineDied,
    FitStarted,
    Progress,
    RankDone,
    RankFailed,
    RankStatus,
    Record,
    RunEnded,
    RunStarted,
    StepMetrics,
    encode,
)
from gpulayer_nb.records.run_folder import RunFolder
from gpulayer_nb.server import live_run
from gpulayer_nb.server.live_run import CURVE_POINTS, RATES, LiveRun, ShortCurve

RUN = "20260131-142305-3f2a"


def started(**fields: Any) -> RunStarted:
    shape = {"num_nodes": 1, "devices": 2, "backend": "gloo", "accelerator": "cpu", "simulated": True}
    return RunStarted(
        run_id=RUN, mode="train", workers=("a", "a"), device_names=("cpu", "cpu"), pids=(11, 12), **{**shape, **fields}
    )


def batch(number: int, *records: Record, rank: int = 0) -> dict[str, Any]:
    return {"run_id": RUN, "rank": rank, "seq": number, "records": [encode(record) for record in records]}


def steps(first: int, values: list[float], time: float = 0.0) -> StepMetrics:
    numbers = tuple(range(first, first + len(values)))
    return StepMetrics(
        time=time, steps=numbers, epochs=(0,) * len(values), values={"loss": tuple(values)}, samples=16 * len(values)
    )


def test_a_curve_of_any_length_has_few_points_and_the_right_means() -> None:
    curve = ShortCurve()
    curve.add(float(n) for n in range(100_000))
    points = curve.points
    assert len(points) <= CURVE_POINTS + 1
    assert points == sorted(points)
    assert points[0] < 3000 and points[-1] > 97_000
    curve.add([math.nan, None, math.inf])
    assert all(math.isfinite(point) for point in curve.points)


def test_a_batch_that_came_before_is_left_out() -> None:
    run = LiveRun(RUN)
    run.take(batch(0, steps(1, [1.0, 2.0])))
    run.take(batch(0, steps(1, [1.0, 2.0])))
    assert run.curve() == [1.0, 2.0]
    assert run.last_step == 2
    assert run.values == {"loss": 2.0}


def test_each_rank_has_its_state_and_its_last_rates() -> None:
    run = LiveRun(RUN, clock=lambda: 50.0)
    run.apply(started())
    for number in range(RATES + 3):
        run.take(batch(number, RankStatus(rank=1, state="running", global_step=number, samples_per_second=float(number)), rank=1))
    assert [row.state for row in run.rows()] == ["starting", "running"]
    assert run.rates(1) == [float(n) for n in range(3, RATES + 3)]
    run.apply(EngineDied(worker="a", slot=1, pid=12, signal=9))
    assert run.rows()[1].state == "dead"


def test_the_first_cause_is_kept_and_its_echoes_are_not() -> None:
    run = LiveRun(RUN)
    run.apply(started())
    run.apply(RankFailed(rank=0, error_type="RuntimeError", message="connection closed", consequence=True))
    run.apply(RankFailed(rank=1, error_type="ValueError", message="bad sample"))
    assert run.cause is not None and run.cause.error_type == "ValueError"
    assert [row.state for row in run.rows()] == ["idle", "failed"]
    assert not run.is_left
    run.apply(RankDone(rank=0, state="failed"))
    run.apply(RankDone(rank=1, state="failed"))
    assert run.is_left


def test_who_comes_late_reads_the_beginning_and_the_end_of_a_long_run(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(live_run, "HEAD_BYTES", 2000)
    monkeypatch.setattr(live_run, "TAIL_BYTES", 3000)
    folder = RunFolder.create(RUN, tmp_path)
    folder.append(started())
    last = json.dumps(batch(501, Progress(phase="train", epoch=0, batch_index=501, batches=1000, global_step=501))) + "\n"
    with folder.records.open("a") as file:
        file.write(json.dumps(batch(0, FitStarted(max_epochs=1, batches_per_epoch=1000, prog_bar=("loss",)))) + "\n")
        for number in range(1, 501):
            file.write(json.dumps(batch(number, steps(number, [1.0 / number], time=float(number)))) + "\n")
        file.write(last[:40])
    run = LiveRun(RUN)
    run.read_folder(folder)
    assert (run.run is not None, run.last_step, run.end_step, run.metric) == (True, 500, 1000, "loss")
    with folder.records.open("a") as file:
        file.write(last[40:])
    folder.append(RunEnded(state="stopped"))
    run.read_folder(folder)
    assert run.state == "stopped"
    assert run.progress is not None and run.progress.global_step == 501
