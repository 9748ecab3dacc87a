"""Who waits for whom: a table of ranks and one sentence. Pure: whereabouts in, text out.

Stable text: no seconds, no process ids, so that a notebook with it can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpulayer_nb.records.whereabouts import Whereabouts

_BACKWARD = "the gradient exchange"  # DDP's all-reduce runs inside backward, in C++


@dataclass(frozen=True)
class HangReport:
    """`is_blocked`: some ranks wait for others that will not come without help, or nobody can tell."""

    verdict: str
    table: str
    is_blocked: bool

    def __str__(self) -> str:
        return f"{self.verdict}\n{self.table}"


def report(
    ranks: Sequence[Whereabouts], missing: Sequence[int], who: Callable[[int], str], earlier: Sequence[Whereabouts] = ()
) -> HangReport:
    """Describes where the ranks of a run are, and whether it can go on.

    Args:
        ranks: of every rank that answered.
        earlier: the same, moments before; ranks that go on are never seen at one place, since they are asked one after the other.
        missing: ranks that did not answer.
        who: a rank in words.
    """
    if not missing and _goes_on(ranks, earlier):
        verdict, blocked = "The ranks go on: nobody is stuck.", False
    else:
        verdict, blocked = _verdict(ranks, missing)
    lines = [f"  {who(where.rank)}: {_place(where)}" for where in ranks]
    lines += [f"  {who(rank)}: does not answer" for rank in missing]
    return HangReport(verdict, "\n".join(lines), blocked)


def _goes_on(ranks: Sequence[Whereabouts], earlier: Sequence[Whereabouts]) -> bool:
    """A rank that waits now and was elsewhere a moment ago was let go in between: its exchange is no dead one.

    The gradient exchange is not counted in `entered`, so the stack tells too.
    """
    waiting = {where.rank: where for where in ranks if _waits_in(where)}
    return any(where.rank in waiting and where != waiting[where.rank] for where in earlier)


def _verdict(ranks: Sequence[Whereabouts], missing: Sequence[int]) -> tuple[str, bool]:
    if missing:
        return f"{_names(missing)} {_do(missing, 'does', 'do')} not answer.", True
    waiting = [where for where in ranks if _waits_in(where)]
    working = [where for where in ranks if where.busy and not _waits_in(where)]
    through = [where for where in ranks if not where.busy]
    if not waiting:
        return "No rank waits for another: every rank is at work.", False
    waiters = _names([where.rank for where in waiting])
    what = _waits_in(waiting[0]) or ""
    if working or through:
        said = [f"{_names([where.rank])} has not entered {what}: it is in {_line(where)}." for where in working[:2]]
        if through:
            gone = [where.rank for where in through]
            said.append(f"{_names(gone)} {_do(gone, 'has', 'have')} left the cell and will not enter it.")
        verb = _do([where.rank for where in waiting], "waits", "wait")
        return f"{waiters} {verb} in {what} for others. {' '.join(said)}", True
    if len({(_waits_in(where), where.entered) for where in waiting}) > 1:
        each = "; ".join(
            f"rank {where.rank} in {_waits_in(where)}, its {_ordinal(where.entered)}, {_line(where)}" for where in waiting[:4]
        )
        return f"The ranks wait in different collectives: {each}.", True
    return f"All ranks are in the same {what.removeprefix('the ')}: the exchange itself is slow, or its network is.", False


def _waits_in(where: Whereabouts) -> str | None:
    if not where.busy:
        return None
    if where.collective is not None:
        return where.collective
    return _BACKWARD if any(frame.function == "_engine_run_backward" for frame in where.stack[-2:]) else None


def _place(where: Whereabouts) -> str:
    if not where.busy:
        return "has left the cell"
    step = f"step {where.global_step + 1}, " if where.global_step else ""
    waits = _waits_in(where)
    return f"{step}waits in {waits}, {_line(where)}" if waits else f"{step}in {_line(where)}"


def _line(where: Whereabouts) -> str:
    frame = where.user_frame
    if frame is None:
        last = where.stack[-1] if where.stack else None
        return f"{last.function} ({last.file.rsplit('/', 1)[-1]} line {last.line})" if last else "an unknown place"
    function = "" if frame.function == "<module>" else f"{frame.function}, "
    return f"{function}cell {frame.cell} line {frame.line}"


def _names(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"Rank {ranks[0]}"
    return f"Ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def _do(ranks: Sequence[int], one: str, several: str) -> str:
    return one if len(ranks) == 1 else several


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
