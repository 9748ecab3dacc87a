"""A run's history, fed with the records that a run publishes."""

import math
import threading
from dataclasses import replace

import pytest

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import (
    EngineDied,
    EpochMetrics,
    FitStarted,
    NonFinite,
    Notice,
    Progress,
    RankDone,
    RankFailed,
    RankOutput,
    RankStatus,
    RunEnded,
    RunStarted,
    StepMetrics,
)

STARTED = RunStarted(
    time=100.0, run_id="3f2a", mode="train", num_nodes=2, devices=2, backend="gloo", accelerator="cpu", simulated=True,
    workers=("local",) * 4, device_names=("cpu",) * 4, pids=(11, 12, 13, 14),
)  # fmt: skip


class Clock:
    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def history(*records: object, clock: Clock | None = None) -> RunHistory:
    made = RunHistory(clock or Clock())
    for record in records:
        made.apply(record)  # type: ignore[arg-type]  # the tests name records only
    return made


def steps(first: int, *losses: float | None, epoch: int = 0, time: float = 0.0, samples: int = 0) -> StepMetrics:
    numbers = tuple(range(first, first + len(losses)))
    return StepMetrics(time=time, steps=numbers, epochs=(epoch,) * len(losses), values={"loss": losses}, samples=samples)


def test_the_header_gives_shape_batch_and_backend() -> None:
    fit = FitStarted(batch_size=32, max_epochs=5, batches_per_epoch=10)
    assert history(STARTED).header_line() == "2 nodes × 2 devices = 4 ranks · learning rate unchanged · gloo · simulated nodes"
    assert history(STARTED, fit).header_line() == (
        "2 nodes × 2 devices = 4 ranks · batch 32 × 4 = global batch 128 · learning rate unchanged · gloo · simulated nodes"
    )


def test_the_header_counts_accumulated_batches() -> None:
    fit = FitStarted(batch_size=32, accumulate_grad_batches=2)
    assert "batch 32 × 4 × 2 accumulated = global batch 256" in history(STARTED, fit).header_line()


def test_rows_hold_every_step_and_every_epoch_in_order() -> None:
    made = history(
        STARTED,
        steps(1, 2.0, 1.5),
        EpochMetrics(split="train", epoch=0, global_step=2, values={"loss": 1.75}, samples=8, seconds=0.5),
        EpochMetrics(split="val", epoch=0, global_step=2, values={"val_loss": 1.6}, samples=4, seconds=0.1),
        steps(3, 1.0, epoch=1),
    )
    assert made.rows() == [
        {"split": "step", "epoch": 0, "global_step": 1, "loss": 2.0},
        {"split": "step", "epoch": 0, "global_step": 2, "loss": 1.5},
        {"split": "train", "epoch": 0, "global_step": 2, "loss": 1.75, "samples": 8, "seconds": 0.5},
        {"split": "val", "epoch": 0, "global_step": 2, "val_loss": 1.6, "samples": 4, "seconds": 0.1},
        {"split": "step", "epoch": 1, "global_step": 3, "loss": 1.0},
    ]


def test_a_value_that_no_rank_logged_is_left_out_and_nan_is_kept() -> None:
    made = history(STARTED, steps(1, 0.5, None, math.nan))
    numbers, losses = made.column("loss")
    assert list(numbers) == [1, 3]
    assert losses[0] == 0.5
    assert math.isnan(losses[1])


def test_step_values_take_sixteen_bytes() -> None:
    made = history(STARTED, steps(1, *[1.0] * 1000))
    numbers, losses = made.column("loss")
    assert numbers.itemsize + losses.itemsize == 16


def test_metrics_are_the_last_epoch_means_of_all_splits() -> None:
    made = history(
        STARTED,
        EpochMetrics(split="train", epoch=0, global_step=5, values={"loss": 3.0}),
        EpochMetrics(split="val", epoch=0, global_step=5, values={"val_loss": 2.5}),
        EpochMetrics(split="train", epoch=1, global_step=10, values={"loss": 2.0}),
        EpochMetrics(split="val", epoch=1, global_step=10, values={"val_loss": 1.5}),
    )
    assert made.metrics == {"loss": 2.0, "val_loss": 1.5}


def test_a_validation_metric_named_like_a_training_one_gets_its_split_in_front() -> None:
    made = history(
        STARTED,
        EpochMetrics(split="train", epoch=0, global_step=5, values={"loss": 3.0}),
        EpochMetrics(split="val", epoch=0, global_step=5, values={"loss": 2.5, "idx": 4.5}),
    )
    assert made.metrics == {"loss": 3.0, "val_loss": 2.5, "idx": 4.5}


def test_a_metric_of_some_ranks_says_of_how_many() -> None:
    made = history(STARTED, StepMetrics(steps=(1, 2), epochs=(0, 0), values={"m": (0.7, 0.7)}, ranks={"m": (1, 4)}))
    assert made.fewest_ranks("m") == 1
    assert history(STARTED, steps(1, 1.0)).fewest_ranks("loss") is None


def test_there_is_no_eta_before_ten_steps_then_it_comes_from_the_last_thirty_seconds() -> None:
    made = history(STARTED, FitStarted(max_epochs=10, batches_per_epoch=100))
    made.apply(steps(1, *[1.0] * 9, time=1.0))
    assert made.eta_seconds() is None
    for i in range(20):  # slow: 1 step a second
        made.apply(steps(10 + i, 1.0, time=2.0 + i))
    for i in range(400):  # then 10 steps a second for 40 s
        made.apply(steps(30 + i, 1.0, time=22.0 + i / 10))
    assert made.eta_seconds() is not None
    assert abs((made.eta_seconds() or 0) - (1000 - 429) / 10) < 1


def test_eta_adds_measured_validations() -> None:
    made = history(STARTED, FitStarted(max_epochs=4, batches_per_epoch=10, val_batches=2))
    for i in range(10):
        made.apply(steps(1 + i, 1.0, time=1.0 + i))
    made.apply(EpochMetrics(split="val", epoch=0, global_step=10, values={"val_loss": 1.0}, seconds=5.0))
    made.apply(steps(11, 1.0, epoch=1, time=16.0))
    assert abs((made.eta_seconds() or 0) - (29 * 1.0 + 3 * 5.0)) < 0.1


def test_the_run_ends_at_max_steps_or_max_epochs_whichever_comes_first() -> None:
    assert history(STARTED, FitStarted(max_epochs=10, batches_per_epoch=100, max_steps=70)).end_step == 70
    assert history(STARTED, FitStarted(max_epochs=2, batches_per_epoch=100, max_steps=900)).end_step == 200
    assert history(STARTED, FitStarted(max_epochs=2, batches_per_epoch=99, accumulate_grad_batches=2)).end_step == 100
    assert history(STARTED, FitStarted(max_epochs=2)).end_step is None


def test_elapsed_runs_with_the_clock_and_stops_with_the_run() -> None:
    clock = Clock()
    made = history(STARTED, clock=clock)
    clock.now = 128.5
    assert made.elapsed_seconds() == 28.5
    made.apply(RunEnded(time=130.0, state="finished"))
    clock.now = 500.0
    assert made.elapsed_seconds() == 30.0


def test_states_follow_the_records() -> None:
    made = history(STARTED)
    assert made.state == "starting"
    made.apply(FitStarted(max_epochs=1))
    assert made.state == "running"
    made.mark_stopping()
    made.apply(steps(1, 1.0))
    assert made.state == "stopping"
    made.apply(RunEnded(time=1.0, state="stopped"))
    made.mark_stopping()
    assert made.state == "stopped"


def test_a_run_without_a_step_for_a_while_is_stalled_unless_it_validates() -> None:
    clock = Clock()
    made = history(STARTED, FitStarted(max_epochs=1), steps(1, 1.0), clock=clock)
    clock.now += 12
    assert made.stalled_seconds() == 12
    made.apply(Progress(phase="val", epoch=0, batch_index=0, batches=9, global_step=1))
    assert made.stalled_seconds() == 0


def test_ranks_show_what_they_last_said_and_fall_silent() -> None:
    clock = Clock()
    made = history(STARTED, clock=clock)
    assert [row.state for row in made.rank_rows()] == ["starting"] * 4
    made.apply(RankStatus(rank=3, state="running", global_step=7, samples_per_second=12.5, memory_bytes=5))
    row = made.rank_rows()[3]
    assert (row.place.node_rank, row.place.local_rank, row.worker, row.pid) == (1, 1, "local", 14)
    assert (row.state, row.global_step, row.samples_per_second, row.memory_bytes) == ("running", 7, 12.5, 5)
    assert row.label == "rank 3 (node 1, local rank 1, worker local)"
    clock.now += 3.5
    assert (made.rank_rows()[3].state, made.rank_rows()[3].detail) == ("silent", "last seen 4 s ago")
    made.apply(RankDone(rank=3, state="finished"))
    clock.now += 60
    assert made.rank_rows()[3].state == "idle"


def test_the_first_error_that_is_no_echo_is_the_cause() -> None:
    made = history(
        STARTED,
        RankFailed(time=5.2, rank=0, error_type="RuntimeError", message="connection closed", consequence=True),
        RankFailed(time=5.1, rank=3, error_type="ValueError", message="bad sample", cell=4, cell_line=18),
        RankFailed(time=5.3, rank=1, error_type="ValueError", message="later"),
    )
    assert made.cause is not None
    assert made.cause.rank == 3
    assert [row.state for row in made.rank_rows()] == ["idle", "failed", "starting", "failed"]
    assert made.rank_rows()[3].detail == "ValueError, cell 4 line 18"


def alone(*seconds: float) -> list[RankStatus]:
    return [RankStatus(rank=rank, state="running", own_seconds=each) for rank, each in enumerate(seconds)]


def test_the_rank_that_the_others_wait_for_stands_out_with_its_times() -> None:
    rows = history(STARTED, *alone(0.010, 0.012, 0.041, 0.011)).rank_rows()
    assert [row.is_straggler for row in rows] == [False, False, True, False]
    assert rows[2].detail == "late: 41 ms a step alone, the others 11 ms"


@pytest.mark.parametrize(
    "seconds", [(0.010, 0.012, 0.014, 0.011), (0.0001, 0.0002, 0.0009, 0.0001), (0.041,)], ids=["alike", "tiny", "one knows"]
)
def test_ordinary_differences_make_no_straggler(seconds: tuple[float, ...]) -> None:
    assert not any(row.is_straggler for row in history(STARTED, *alone(*seconds)).rank_rows())


def test_an_error_that_comes_again_with_its_traceback_is_one_error() -> None:
    first = RankFailed(time=5.1, rank=3, error_type="ValueError", message="bad sample")
    made = history(STARTED, first, replace(first, traceback="drawn"))
    assert [failure.traceback for failure in made.failures] == ["drawn"]


def test_a_dead_process_marks_its_rank_and_stays_dead() -> None:
    made = history(
        STARTED, EngineDied(worker="local", slot=2, pid=13, signal=9), EngineDied(worker="local", slot=9, pid=99, signal=9)
    )
    made.apply(RankStatus(rank=2, state="running"))
    assert [row.state for row in made.rank_rows()] == ["starting", "starting", "dead", "starting"]
    assert [death.pid for death in made.deaths] == [13]


def test_steps_that_are_not_finite_join_to_stretches() -> None:
    made = history(
        STARTED, NonFinite(name="loss", steps=(5, 6), ranks=(1, 0)), NonFinite(name="loss", steps=(7, 20), ranks=(2, 3))
    )
    assert [(m.first_step, m.last_step, m.steps, m.rank) for m in made.non_finite] == [(5, 7, 3, 1), (20, 20, 1, 3)]


def test_the_same_notice_of_several_ranks_is_kept_once() -> None:
    made = history(STARTED, Notice(text="short", rank=0), Notice(text="short", rank=1), Notice(text="other"))
    assert [n.text for n in made.notices] == ["short", "other"]


def test_output_goes_to_the_rank_that_wrote_it() -> None:
    made = history(STARTED, RankOutput(rank=1, stream="stdout", text="hello\n"))
    assert made.output.text() == "[rank 1] hello\n"


def test_records_may_come_from_one_thread_while_another_reads() -> None:
    made = history(STARTED)
    errors: list[Exception] = []

    def read() -> None:
        try:
            while made.last_step < 20_000:
                numbers, losses = made.column("loss") if "loss" in made.metric_names else ((), ())
                assert len(numbers) == len(losses)
                made.rank_rows(), made.epochs(), made.epoch_ends
        except Exception as error:  # noqa: BLE001  handed to the main thread
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for first in range(1, 20_000, 20):
        made.apply(steps(first, *[1.0] * 20))
    reader.join(10)
    assert not reader.is_alive()
    assert errors == []
    assert len(made.rows()) == 20_000


def test_the_moments_of_steps_count_from_the_start_of_the_run_and_stay_few() -> None:
    told = history(STARTED, *(steps(step, 1.0, time=100 + step / 10) for step in range(1, 40_001)))
    times = told.step_times()
    assert times[0] == (1, pytest.approx(0.1))
    assert 1_000 < len(times) <= 10_000
    assert all(seconds == pytest.approx(step / 10) for step, seconds in times)
