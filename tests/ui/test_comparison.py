"""Several runs in one figure."""

import numpy as np
import pytest

from gpulayer_nb.api.compare import compare
from gpulayer_nb.api.run import Run
from gpulayer_nb.errors import UsageError
from gpulayer_nb.records.run_folder import RunFolder


@pytest.fixture
def runs(told, tmp_path):
    histories = [told(epochs=3), told(epochs=2, steps=200, flush=20)]
    return [Run(f"20260101-{name}", RunFolder(tmp_path / name), history) for name, history in zip("ab", histories, strict=True)]


def ends(figure, panel=0):
    """The last place on the horizontal axis of each solid line."""
    lines = [line for line in figure.axes[panel].lines if len(line.get_xdata()) and line.get_linestyle() == "-"]
    return [float(np.asarray(line.get_xdata())[-1]) for line in lines]


def test_two_runs_share_a_panel_per_metric_and_keep_their_lengths(runs):
    figure = compare(*runs)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["loss", "acc"]
    assert ends(figure) == [300, 400]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]


def test_by_epoch_and_by_time_change_the_axis_only(runs):
    assert ends(compare(*runs, by="epoch")) == pytest.approx([3, 2])
    by_time = compare(*runs, metrics=["acc"], by="time")
    assert by_time.axes[0].get_xlabel() == "minutes"
    assert ends(by_time) == pytest.approx([9.5 / 60, 12 / 60], abs=0.02)


def test_a_figure_can_be_saved(runs, tmp_path):
    compare(*runs, labels=["small", "large"]).savefig(tmp_path / "runs.png")
    assert (tmp_path / "runs.png").stat().st_size > 10_000


def test_what_cannot_be_compared_is_said(runs):
    with pytest.raises(UsageError, match="needs at least one run"):
        compare()
    with pytest.raises(UsageError, match="by='epochs' is not an axis of glt.compare; there are 'step', 'epoch', 'time'"):
        compare(*runs, by="epochs")
    with pytest.raises(UsageError, match="No run has a metric 'f1'; there are 'loss', 'acc'"):
        compare(*runs, metrics=["f1"])
