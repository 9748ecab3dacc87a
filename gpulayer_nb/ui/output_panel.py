"""What the ranks wrote, as HTML.

Runs in the kernel. Owns how lines, their stream and their folding are shown. Must not know widgets.
"""

from __future__ import annotations

from gpulayer_nb.records.output_log import FoldedLine, OutputLog
from gpulayer_nb.ui import number
from gpulayer_nb.ui.markup import coloured

LIVE_LINES = 200  # per rank while running; all kept lines are in `run.logs`


def output_summary(output: OutputLog, rank: int, folded: list[FoldedLine]) -> str:
    """`4 lines`, `2 lines, both similar to rank 0`, `3 lines, 2 similar to rank 0`."""
    total = output.count(rank)
    words = f"{number.count(total)} line{'' if total == 1 else 's'}"
    echoes = [item.first_rank for item in folded if item.first_rank != rank]
    if echoes and total <= len(folded):
        share = {1: "", 2: "both "}.get(total, "all ") if len(echoes) == total else f"{number.count(len(echoes))} "
        words += f", {share}similar to rank {min(echoes)}"
    return words


def output_lines(output: OutputLog, rank: int, folded: list[FoldedLine]) -> str:
    """The lines of one rank, newest last, as a `<pre>`; lines shown under an earlier rank are left out."""
    lines = []
    earlier = output.count(rank) - len(folded)
    if earlier > 0:
        lines.append(f'<span class="gpl-err">{number.count(earlier)} earlier lines</span>')
    for item in folded:
        if item.first_rank == rank:
            similar = f'<span class="gpl-same">{item.similar} similar</span>' if item.similar else ""
            stderr = ' <span class="gpl-err">stderr</span>' if item.line.stream == "stderr" else ""
            lines.append(coloured(item.line.shown) + stderr + similar)
    text = "\n".join(lines)
    return f'<pre tabindex="0" role="log" aria-label="output of rank {rank}"><code>{text}</code></pre>'
