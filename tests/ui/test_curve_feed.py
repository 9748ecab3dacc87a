"""What a page is told of the curves: everything once, little at a time."""

import math

import numpy as np

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import RunStarted, StepMetrics
from gpulayer_nb.ui.curve_feed import DELTA_BYTES, TAIL, WHOLE_GROUPS, CurveFeed, grouped


def stepped(history, first, last, names=("loss",)):
    steps = tuple(range(first, last + 1))
    values = {name: tuple(math.sin(step / 50) + 2 for step in steps) for name in names}
    history.apply(StepMetrics(time=1.0, steps=steps, epochs=(0,) * len(steps), values=values, samples=1))


def pairs(buffer):
    return np.frombuffer(buffer, "<f4").reshape(-1, 2)


def groups(buffer):
    return np.frombuffer(buffer, "<f4").reshape(-1, 6)


def test_every_value_is_told_once_and_in_order():
    history = RunHistory()
    feed = CurveFeed(history)
    told = []
    for first in (1, 101, 201):
        stepped(history, first, first + 99)
        entries, buffers = feed.news()
        assert [entry["kind"] for entry in entries] == ["values"]
        told += pairs(buffers[0])[:, 0].tolist()
    assert told == list(range(1, 301))
    assert feed.news() == ([], [])


def test_a_long_backlog_of_many_metrics_stays_in_the_limit_and_keeps_every_extreme():
    history = RunHistory()
    names = ("loss", "acc", "lr")
    stepped(history, 1, 50_000, names)
    entries, buffers = CurveFeed(history).news()
    assert [entry["kind"] for entry in entries] == ["groups"] * 3
    assert sum(map(len, buffers)) <= DELTA_BYTES
    told, values = groups(buffers[0]), np.asarray(history.column("loss")[1])
    assert told[-1, 0] == 50_000
    assert np.isclose(told[:, 1].min(), values.min())
    assert np.isclose(told[:, 2].max(), values.max())
    assert np.isclose(told[:, 3].sum() / told[:, 4].sum(), values.mean())


def test_the_whole_is_thinned_and_news_go_on_after_it():
    history = RunHistory()
    stepped(history, 1, 100_000)
    feed = CurveFeed(history)
    entries, buffers = feed.whole()
    assert entries[0]["total"] == 100_000
    coarse, tail = groups(buffers[entries[0]["buffer"]]), pairs(buffers[entries[0]["tail"]])
    assert len(coarse) <= WHOLE_GROUPS + 1
    assert coarse[:, 4].sum() == 100_000
    assert tail[:, 0].tolist() == list(range(100_000 - TAIL + 1, 100_001))
    stepped(history, 100_001, 100_010)
    _, buffers = feed.news()
    assert pairs(buffers[0])[:, 0].tolist() == list(range(100_001, 100_011))


def test_values_that_are_not_finite_are_counted_and_left_out_of_the_sum():
    told = groups(grouped(range(1, 9), [1.0, math.nan, 3.0, math.inf, math.nan, math.nan, math.nan, math.nan], 2))
    assert told[0].tolist() == [4, 1, 3, 4, 2, 2]
    assert np.isnan(told[1, 1])
    assert told[1, 4:].tolist() == [0, 4]


def test_a_run_without_a_step_tells_nothing():
    history = RunHistory()
    history.apply(RunStarted(time=1.0, run_id="x", mode="train", num_nodes=1, devices=1, backend="gloo", accelerator="cpu",
                             simulated=False, workers=("local",), device_names=("cpu",), pids=(1,)))  # fmt: skip
    assert CurveFeed(history).whole() == ([], [])
