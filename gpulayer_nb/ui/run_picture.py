"""A run's curves as a PNG on standard output: `python -m gpulayer_nb.ui.run_picture FOLDER`.

Runs in a process of its own, so that whoever wants the picture (the Jupyter server) loads neither matplotlib nor the run.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.run_folder import RunFolder
from gpulayer_nb.records.run_follower import RunFollower
from gpulayer_nb.ui.figure import MARGIN, ChartFigure
from gpulayer_nb.ui.panel import ChartModel

SCALE = 2.0  # device pixels per CSS pixel


def picture(folder: RunFolder) -> bytes:
    """The PNG; empty if the run has no curve yet."""
    history = RunHistory()
    RunFollower(folder, history).read()
    chart = ChartModel(history).chart()
    if not chart.panels or not history.last_step:
        return b""
    drawing = ChartFigure(scale=SCALE, margin=MARGIN)
    drawing.update(chart)
    return drawing.png()


if __name__ == "__main__":
    sys.stdout.buffer.write(picture(RunFolder(Path(sys.argv[1]))))
