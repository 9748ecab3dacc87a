"""What a reader at the back of the lecture hall would complain about."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gpulayer_nb.teach.pictures.look import SMALL


def complaints(figure: Figure) -> list[str]:
    """Texts that are small, cut off, or over one another."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    page = figure.bbox
    unseen = {
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        for label in (tick.label1, tick.label2)
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    texts = [t for t in figure.findobj(mpl.text.Text) if t.get_visible() and t.get_text().strip() and t not in unseen]
    boxes = [(t, t.get_window_extent(renderer)) for t in texts]
    found = [f"{t.get_fontsize():g} points: {t.get_text()!r}" for t in texts if t.get_fontsize() < SMALL]
    found += [
        f"cut off: {t.get_text()!r}"
        for t, box in boxes
        if box.x0 < page.x0 - 1 or box.x1 > page.x1 + 1 or box.y0 < page.y0 - 1 or box.y1 > page.y1 + 1
    ]
    for i, (t, a) in enumerate(boxes):
        for u, b in boxes[i + 1 :]:
            if min(a.x1, b.x1) - max(a.x0, b.x0) > 2 and min(a.y1, b.y1) - max(a.y0, b.y0) > 3:
                found.append(f"overlap: {t.get_text()!r} and {u.get_text()!r}")
    return found
