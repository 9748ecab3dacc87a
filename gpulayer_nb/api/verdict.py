"""What a run's end means for the user: its state and the error to raise. Pure: outcome in, verdict out."""

from __future__ import annotations

from dataclasses import dataclass

from gpulayer_nb import errors
from gpulayer_nb.client.driver import DriverOutcome
from gpulayer_nb.client.first_cause import describe_failure, describe_loss, first_failure
from gpulayer_nb.client.rank_group import ReadyGroup
from gpulayer_nb.plan.topology import count
from gpulayer_nb.records.record import RankFailed


@dataclass(frozen=True)
class Verdict:
    """`state` is "finished", "stopped" or "failed"; `refused` is true if the cell was never valid: nothing ran."""

    state: str
    error: BaseException | None = None
    refused: bool = False


def judge(group: ReadyGroup, outcome: DriverOutcome, failures: list[RankFailed], mode: str) -> Verdict:
    """The first cause alone decides; what followed from it is left out."""
    world = group.topology.world_size
    told = {failure.rank: failure for failure in failures}  # a rank's later record has the drawn traceback
    told.update({rank: result.failure for rank, result in outcome.results.items() if result.failure is not None})
    failures = list(told.values())
    lost = [loss for loss in outcome.losses if not loss.killed_by_us]
    first = first_failure(failures)
    tracebacks = {failure.rank: failure.traceback for failure in failures}
    if outcome.stopped_by == "timeout":
        return Verdict("failed", errors.RunFailed(_timed_out(outcome)))
    if outcome.stopped_by == "user" and not lost and (first is None or first.consequence):
        return Verdict("stopped", errors.RunStopped(_stopped(outcome, mode, world)))
    if lost and (first is None or first.consequence):
        return Verdict("failed", errors.RunFailed(describe_loss(lost[0], world - len(outcome.losses)), tracebacks=tracebacks))
    if first is not None:
        kind = getattr(errors, first.error_type, None)
        if isinstance(kind, type) and issubclass(kind, errors.GpuLayerError) and kind is not errors.RunFailed:
            return Verdict("failed", kind(first.message), refused=first.global_step in (None, 0))
        return Verdict("failed", _raised(group, outcome, first, tracebacks))
    states = {result.state for result in outcome.results.values()}
    if outcome.stopped_by == "user" or ("stopped" in states and outcome.stopped_by):
        return Verdict("stopped", errors.RunStopped(_stopped(outcome, mode, world)))
    return Verdict("stopped" if "stopped" in states else "finished")


def _raised(group: ReadyGroup, outcome: DriverOutcome, first: RankFailed, tracebacks: dict[int, str]) -> errors.RunFailed:
    world = group.topology.world_size
    assignment = group.assignments[first.rank]
    message = describe_failure(first, assignment.place, assignment.worker, world - len(outcome.losses), world)
    return errors.RunFailed(message, report=first.traceback, tracebacks=tracebacks)


def _stopped(outcome: DriverOutcome, mode: str, world: int) -> str:
    step = max((result.global_step for result in outcome.results.values()), default=0)
    if mode != "ranks" and step and all(result.state == "stopped" for result in outcome.results.values()):
        return f"stopped after step {step} on {count(world, 'rank')}; the model has the weights of that step."
    if outcome.losses:
        silent = count(len(outcome.losses), "rank")
        return f"stopped; {silent} did not answer, so their engines were ended and are replaced before the next run."
    kept = "the model is as before the run" if mode != "ranks" else "variables are kept"
    return f"stopped on {count(world, 'rank')}; {kept}."


def _timed_out(outcome: DriverOutcome) -> str:
    said = "The cell took longer than --timeout allows and was ended. Variables are kept; the next cell gets a new group."
    return f"{said}\n{outcome.hang}" if outcome.hang is not None else said
