"""The drawing: bounded, exact at its end, gaps visible, a figure like any other."""

import math

import numpy as np
import pytest

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import NonFinite, StepMetrics
from gpulayer_nb.ui.figure import ChartFigure, make_figure
from gpulayer_nb.ui.panel import ChartModel, family


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("val_loss", "loss"),
        ("loss", "loss"),
        ("train_acc", "acc"),
        ("val/f1", "f1"),
        ("val_", "val_"),
        ("valuation", "valuation"),
    ],
)
def test_training_and_validation_of_a_metric_are_one_family(name, base):
    assert family(name) == base


def test_each_family_has_one_axes_with_its_last_values_exact(told):
    history = told()
    figure = make_figure(history)
    assert len(figure.axes) == 2
    raw, mean, val, _tip = figure.axes[0].get_lines()[:4]
    assert raw.get_ydata()[-1] == history.column("loss")[1][-1]
    assert mean.get_ydata()[-1] == pytest.approx(np.mean(history.column("loss")[1][-25:]))
    assert val.get_ydata()[-1] == history.metrics["val_loss"]
    assert len(raw.get_xdata()) <= 2000


def test_a_gap_breaks_the_line_and_is_named():
    history = RunHistory()
    values = tuple(math.nan if 300 <= s < 341 else 1.0 for s in range(1, 3001))
    history.apply(StepMetrics(steps=tuple(range(1, 3001)), epochs=(0,) * 3000, values={"loss": values}))
    history.apply(NonFinite(name="loss", steps=tuple(range(300, 341)), ranks=(1,) * 41))
    axes = make_figure(history).axes[0]
    assert np.isnan(axes.get_lines()[0].get_ydata()).any()
    assert "NaN, 41 steps from 300, rank 1" in [text.get_text() for text in axes.texts]


def test_a_kept_figure_draws_the_same_picture_as_a_new_one(recorded_run):
    history = RunHistory(lambda: 1030.0)
    model, kept = ChartModel(history), ChartFigure()
    for i, record in enumerate(recorded_run.recorded()):
        history.apply(record)
        if i % 20 == 0:
            kept.update(model.chart())
            kept.png()
    fresh = ChartFigure()
    chart = model.chart()
    kept.update(chart)
    fresh.update(chart)
    assert kept.png() == fresh.png()


def test_a_metric_that_is_not_a_number_everywhere_can_be_drawn():
    history = RunHistory()
    history.apply(
        StepMetrics(steps=(1, 2), epochs=(0, 0), values={"loss": (math.nan, math.inf), "zero": (0.0, 0.0), "big": (1e12, 3e12)})
    )
    assert len(ChartFigure().png()) > 100
    drawing = ChartFigure()
    drawing.update(ChartModel(history).chart())
    assert drawing.png().startswith(b"\x89PNG")


def test_the_axis_of_steps_grows_by_whole_epochs_and_never_shrinks(recorded_run):
    history = RunHistory(lambda: 1030.0)
    model, edges = ChartModel(history), []
    for record in recorded_run.recorded(until=250):
        history.apply(record)
        if history.state == "running":
            edges.append(model.chart().right)
    assert edges == sorted(edges)
    assert set(edges) == {100, 200, 300}


def test_the_figure_leaves_the_settings_of_matplotlib_alone(told):
    import matplotlib

    before = dict(matplotlib.rcParams)
    make_figure(told())
    assert dict(matplotlib.rcParams) == before
