"""The tree job → nodes → ranks → devices, with both ids of every rank and the formula between them."""

from __future__ import annotations

from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.topology import Topology, count
from gpulayer_nb.teach.pictures.look import LIGHT, SMALL, THIN, TITLE, Theme, canvas, ink_on, new_figure, rank_color, rank_hatch
from gpulayer_nb.teach.pictures.picture import Picture

NUMBER = 20  # points: the ids are what the picture is about
MOST_COLUMNS = 8  # of 14 points side by side


def rank_tree(
    nodes: int | None = None, devices: int | None = None, *, device_kind: str | None = None, theme: Theme = LIGHT
) -> Picture:
    """Draws the ranks that are up, or `nodes` × `devices` ranks; each column is one process, below it the device that it drives.

    Args:
        device_kind: `cuda` or `cpu`; by default that of the ranks that are up, and `cuda` for other shapes.

    Raises:
        UsageError: no shape is given and no ranks are up.
    """
    topology, kind = _shape(nodes, devices)
    kind = device_kind or kind
    columns = [_shown(topology.num_nodes, MOST_COLUMNS // min(topology.devices, 4)), _shown(topology.devices, 8)]
    if topology.world_size > MOST_COLUMNS:
        columns = [_shown(topology.num_nodes, 3), _shown(topology.devices, 3 if topology.num_nodes > 1 else 8)]
    figure_nodes, figure_devices = columns
    world, left, gap = topology.world_size, 1.42, 0.2
    node_width = (7.9 - left - gap * (len(figure_nodes) - 1)) / len(figure_nodes)
    cell = node_width / len(figure_devices)
    with canvas(theme):
        figure = new_figure(5.3, theme)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, 8), ylim=(0, 5.3))
        axes.axis("off")

        def box(
            x: float, y: float, width: float, height: float, color: str, text: str, size: int,
            *, hatch: str = "", weight: str = "bold",
        ) -> None:  # fmt: skip
            axes.add_patch(
                FancyBboxPatch(
                    (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.08", hatch=hatch, facecolor=color,
                    edgecolor=theme.ink, linewidth=THIN,
                )
            )  # fmt: skip
            label = axes.text(
                x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=size, weight=weight,
                color=theme.ink if color == theme.fill else ink_on(color),
            )  # fmt: skip
            if hatch:
                label.set_bbox({"facecolor": color, "edgecolor": "none", "boxstyle": "circle,pad=0.15"})

        def elbow(x0: float, y0: float, x1: float, y1: float) -> None:
            axes.plot([x0, x0, x1, x1], [y0, (y0 + y1) / 2, (y0 + y1) / 2, y1], color=theme.ink, lw=2)

        for y, text in ((3.98, "node_rank"), (2.95, "rank\n(global)"), (2.22, "local_rank"), (1.35, "device")):
            axes.text(left - 0.15, y, text, ha="right", va="center", fontsize=SMALL, linespacing=1.1)
        middle = left + (7.9 - left) / 2
        box(middle - 2.2, 4.66, 4.4, 0.52, theme.fill, f"world_size = {topology.num_nodes} × {topology.devices} = {world}", TITLE)
        for place, node in enumerate(figure_nodes):
            x = left + place * (node_width + gap)
            if node is None:
                axes.text(x + node_width / 2, 3.98, "…", ha="center", va="center", fontsize=NUMBER)
                continue
            elbow(middle, 4.66, x + node_width / 2, 4.26)
            box(x, 3.72, node_width, 0.54, theme.fill, str(node), NUMBER)
            for column, local in enumerate(figure_devices):
                at = x + (column + 0.5) * cell
                if local is None:
                    axes.text(at, 2.95, "…", ha="center", va="center", fontsize=NUMBER)
                    continue
                rank, width = node * topology.devices + local, min(cell - 0.05, 1.3)
                elbow(at, 3.72, at, 3.32)
                box(at - width / 2, 2.62, width, 0.7, rank_color(rank), str(rank), NUMBER, hatch=rank_hatch(rank))
                axes.text(at, 2.22, str(local), ha="center", va="center", fontsize=NUMBER)
                axes.add_patch(
                    FancyArrowPatch(
                        (at, 2.02), (at, 1.6), arrowstyle="-|>", mutation_scale=16, lw=2, color=theme.ink, shrinkA=0, shrinkB=0
                    )
                )
                name = kind if kind == "cpu" else f"{kind}:{local}"
                box(at - width / 2, 1.1, width, 0.5, theme.fill, name, SMALL, weight="normal")
                axes.text(
                    at, 0.82, f"{node}·{topology.devices}+{local}", ha="center", va="center", fontsize=SMALL, color=theme.muted
                )
        axes.text(left - 0.15, 0.82, "rank =", ha="right", va="center", fontsize=SMALL, color=theme.muted)
        axes.text(4, 0.32, "rank = node_rank × devices + local_rank", ha="center", va="center", fontsize=TITLE, weight="bold")
    ranks = "; ".join(
        f"node {n}: ranks {n * topology.devices} to {(n + 1) * topology.devices - 1}" for n in range(topology.num_nodes)
    )
    alt = (
        f"Tree of one job with world size {world}: {count(topology.num_nodes, 'node')} with "
        f"{count(topology.devices, 'rank')} each, one {kind} device per rank. {ranks}. Local ranks start at 0 on every node"
        f"{'' if kind == 'cpu' else ' and choose the device'}. Rank equals node rank times {topology.devices} plus local rank."
    )
    return Picture(figure, f"{topology}", alt)


def _shape(nodes: int | None, devices: int | None) -> tuple[Topology, str]:
    if nodes is not None and devices is not None:
        return Topology(nodes, devices), "cuda"
    if nodes is not None or devices is not None:
        raise UsageError("teach.rank_tree() draws the ranks that are up; teach.rank_tree(2, 4) draws 2 nodes × 4 devices.")
    from gpulayer_nb.api.current import session

    here = session()
    if here.topology is None:
        raise UsageError("No ranks are up. Next: run a `%%ranks` cell first, or give a shape, as in teach.rank_tree(2, 4).")
    return here.topology, "cuda" if here.cluster.ranks("auto").accelerator == "cuda" else "cpu"


def _shown(number: int, most: int) -> list[int | None]:
    """0 … number-1, the middle left out (None) where there are more than `most`."""
    if number <= most:
        return list(range(number))
    return [*range(most - 2), None, number - 1]
