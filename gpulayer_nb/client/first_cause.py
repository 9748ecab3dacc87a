"""Which of several errors is the one to show.

Runs in the kernel. Owns the choice and its words; plain data in, plain data out.
"""

from __future__ import annotations

import signal as signals
from collections.abc import Sequence
from dataclasses import dataclass

from gpulayer_nb.plan.topology import RankPlace, count
from gpulayer_nb.records.record import RankFailed
from gpulayer_nb.records.worker_state import EngineDeath


@dataclass(frozen=True)
class RankLoss:
    """A rank whose process is gone; `death` is None if nobody knows how."""

    place: RankPlace
    worker: str
    pid: int
    death: EngineDeath | None
    killed_by_us: bool = False  # it did not answer, so we ended it: a consequence
    why: str | None = None  # what is known if no death is


def who(place: RankPlace, worker: str) -> str:
    return f"rank {place.rank} (node {place.node_rank}, local rank {place.local_rank}, worker {worker})"


def first_failure(failures: Sequence[RankFailed]) -> RankFailed | None:
    """The earliest error that is not an echo of another's; the earliest of all if every one looks like an echo."""
    own = [failure for failure in failures if not failure.consequence]
    return min(own or failures, key=lambda failure: failure.time, default=None)


def describe_failure(failure: RankFailed, place: RankPlace, worker: str, others_up: int, world_size: int) -> str:
    """`ValueError: bad sample 17 — rank 3 (node 1, local rank 1, worker b), epoch 4, …, in cell 4 line 18. …`"""
    where = [who(place, worker)]
    if failure.global_step:
        where.append(
            f"epoch {(failure.epoch or 0) + 1}, batch {(failure.batch_index or 0) + 1}, after step {failure.global_step}"
        )
    if failure.cell_line is not None:
        where.append(
            f"in cell {failure.cell} line {failure.cell_line}" if failure.cell is not None else f"in line {failure.cell_line}"
        )
    engines = (
        f"All {world_size} engines are up" if others_up == world_size else f"{others_up} of {count(world_size, 'engine')} are up"
    )
    next_step = f"Next: correct the cell and run it again, or look around with `%%ranks {place.rank}`."
    if failure.error_type == "ModuleNotFoundError":
        next_step = "Next: install it where that worker runs; modules of your own are found beside the notebook."
    message = failure.message.strip() or "(no message)"
    return f"{failure.error_type}: {message} — {', '.join(where)}. {engines}, with their variables. {next_step}"


def describe_loss(loss: RankLoss, released: int) -> str:
    """`Rank 1 (node 0, …, pid 48219) was killed by signal 9, often out of memory. …`"""
    subject = who(loss.place, f"{loss.worker}, pid {loss.pid}")
    subject = subject[0].upper() + subject[1:]
    death = loss.death
    if death is None and loss.why:
        return (
            f"{subject} is lost: {loss.why}. The other {count(released, 'rank')} were released. "
            "Next: see to that machine and its `gpulayer worker`, then run the cell again; it goes to workers that are there."
        )
    if death is None:
        how = "is gone; its worker does not know how"
    elif death.signal == signals.SIGKILL:
        how = "was killed by signal 9, often out of memory"
    elif death.signal is not None:
        how = f"was ended by signal {death.signal} ({_signal_name(death.signal)})"
    else:
        how = f"ended with exit code {death.exit_code}"
    return (
        f"{subject} {how}. The other {count(released, 'rank')} were released. "
        "Its engine is replaced before the next run; its variables are gone. "
        "Next: a smaller batch_size or model, or run the cell again."
    )


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return "unknown"
