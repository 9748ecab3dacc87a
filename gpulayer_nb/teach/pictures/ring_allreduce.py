"""A ring all-reduce step by step: whose contributions are in which chunk of which rank."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.patches import FancyArrowPatch, Rectangle

from gpulayer_nb.errors import UsageError
from gpulayer_nb.teach.pictures.look import LIGHT, SMALL, THIN, TITLE, WIRE, Theme, canvas, new_figure, rank_color
from gpulayer_nb.teach.pictures.picture import Picture

ROW, CELL = 0.46, 0.38  # inches
Contents = list[list[frozenset[int]]]  # [rank][chunk] → the ranks whose numbers are in the sum so far


@dataclass(frozen=True)
class RingState:
    """What every rank holds after a step, and the (rank, chunk) cells that it changed."""

    name: str
    contents: Contents
    received: tuple[tuple[int, int], ...]


def ring_states(world: int) -> list[RingState]:
    """The start, world-1 steps that add (reduce-scatter), world-1 steps that copy (all-gather)."""
    contents: Contents = [[frozenset([rank])] * world for rank in range(world)]
    states = [RingState("start", contents, ())]
    for verb, shift in (("add", 0), ("copy", 1)):
        for step in range(world - 1):
            moves = [((rank + shift - step) % world, rank, (rank + 1) % world) for rank in range(world)]
            new = [row[:] for row in contents]
            for chunk, source, target in moves:
                kept = contents[target][chunk] if verb == "add" else frozenset[int]()
                new[target][chunk] = contents[source][chunk] | kept
            contents = new
            states.append(
                RingState(f"step {len(states)}: {verb}", contents, tuple((target, chunk) for chunk, _, target in moves))
            )
    return states


def ring_allreduce(world: int = 4, *, theme: Theme = LIGHT) -> Picture:
    """Draws every step of a ring of 2 to 4 ranks.

    Raises:
        UsageError: another number of ranks; the picture would be too small to read.
    """
    if not 2 <= world <= 4:
        raise UsageError(f"The picture of the ring shows 2, 3 or 4 ranks, got {world}; more would be too small to read.")
    states, width = ring_states(world), 1.48
    cell, tops = width / world, (1.72, 4.78 - (4 - world) * ROW)
    slots = [(0.82 + 1.84 * i, tops[0]) for i in range(world)] + [(0.82 + 1.84 * i, tops[1]) for i in range(1, world)]
    high = 6.9 - 2 * (4 - world) * ROW + (0.35 if world == 2 else 0)
    with canvas(theme):
        figure = new_figure(high, theme)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, 8), ylim=(high, 0))
        axes.axis("off")

        def frame(x: float, y: float, color: str, thick: float, order: int) -> None:
            axes.add_patch(Rectangle((x, y), cell, CELL, fill=False, edgecolor=color, linewidth=thick, zorder=order))

        def arrow(x: float, start: float, end: float, head: str) -> None:
            axes.add_patch(
                FancyArrowPatch(
                    (x, start), (x, end), arrowstyle=head, mutation_scale=13, lw=2.6, color=theme.ink, shrinkA=0, shrinkB=0,
                    zorder=5,
                )
            )  # fmt: skip

        title = f"Ring all-reduce: {world} ranks, 2 × ({world} − 1) = {len(states) - 1} steps"
        axes.text(0.12, 0.33, title, fontsize=TITLE, weight="bold", va="center")
        for top, name in zip(
            tops, ("reduce-scatter: one finished chunk each", "all-gather: pass the finished chunks on"), strict=True
        ):
            axes.text(slots[1][0], top - 0.82, name, fontsize=SMALL, va="center", color=theme.muted)
        for state, (left, top) in zip(states, slots, strict=True):
            axes.text(left + width / 2, top - 0.4, state.name, ha="center", va="center", fontsize=SMALL)
            for rank in range(world):
                y = top + rank * ROW
                for chunk in range(world):
                    x = left + chunk * cell
                    for part in range(world):
                        color = rank_color(part) if part in state.contents[rank][chunk] else theme.fill
                        axes.add_patch(
                            Rectangle((x + part * cell / world, y), cell / world, CELL, edgecolor="none", facecolor=color)
                        )
                    frame(x, y, theme.ink, THIN, 2)
                    if (rank, chunk) in state.received:
                        frame(x, y, WIRE, 4, 3)
                        arrow(x + cell / 2, y - (0.25 if rank else 0.2), y + 0.14, "-|>")
                        if rank == 0:
                            arrow(x + cell / 2, top + world * ROW - 0.24, top + world * ROW + 0.06, "-")
        for left, top in (slots[0], slots[world]):
            for rank in range(world):
                axes.text(left - 0.1, top + rank * ROW + CELL / 2, f"rank {rank}", ha="right", va="center", fontsize=SMALL)
        axes.text(
            0.12, tops[1] - 0.05, "colours: whose\nnumbers are in\nthe sum so far", fontsize=SMALL, va="top", linespacing=1.3
        )
        frame(0.14, tops[1] + 1.1, WIRE, 4, 3)
        axes.text(0.24 + cell, tops[1] + 1.1 + CELL / 2, "received", fontsize=SMALL, va="center")
    alt = (
        f"Ring all-reduce with {world} ranks in {len(states) - 1} steps. The gradient is cut into {world} chunks. In the first "
        f"{world - 1} steps every rank sends one chunk to the next rank, which adds it; then each rank owns one finished chunk. "
        f"In the last {world - 1} steps the finished chunks are copied round the ring. Each rank sends 2 times ({world} minus 1) "
        f"chunks, that is {2 * (world - 1) / world:g} times the size of the gradient."
    )
    return Picture(figure, title, alt)
