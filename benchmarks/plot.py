"""One picture a benchmark: every measurement a dot, the medians a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure


def draw(report: dict[str, Any], folder: Path) -> list[Path]:
    """Write a PNG for each result of a report; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_draw(result, folder) for result in report["results"]]


def _draw(result: dict[str, Any], folder: Path) -> Path:
    contenders = result["contenders"]
    figure = Figure(figsize=(7, 0.8 + 0.45 * len(contenders)), layout="constrained")
    axes = figure.add_subplot()
    for row, one in enumerate(contenders):
        axes.plot(one["values"], [row] * len(one["values"]), "o", color="#0072B2", alpha=0.5)
        axes.plot([one["median"]] * 2, [row - 0.3, row + 0.3], color="#D55E00", linewidth=2)
    axes.set_yticks(range(len(contenders)), [one["contender"] for one in contenders])
    axes.invert_yaxis()
    values = [value for one in contenders for value in one["values"]]
    axes.set_xscale("log" if max(values) > 20 * min(values) else "linear")
    axes.set_xlabel(result["unit"])
    axes.set_title(f"{result['benchmark']}: every measurement, and the median", loc="left")
    path = folder / f"{result['benchmark']}.png"
    figure.savefig(path, dpi=110)
    return path
