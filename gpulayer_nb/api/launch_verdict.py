"""What a launch's end means for the user: its state, the error to raise, the exit code of the command. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gpulayer_nb.client.launch_driver import LaunchOutcome
from gpulayer_nb.client.script_error import BadEnd, describe, first_cause, how
from gpulayer_nb.errors import PlanError, RunFailed, RunStopped
from gpulayer_nb.plan.topology import Topology, count
from gpulayer_nb.records.record import RankFailed

STOPPED_EXIT_CODE = 130  # what shells give a program that Ctrl-C ended
_REFUSED = "refused: "  # engine.torchrun's word for what the machine cannot host


@dataclass(frozen=True)
class LaunchVerdict:
    """`exit_code` is that of the first failure, as a shell would tell it; `failure` its record."""

    state: str
    exit_code: int
    error: BaseException | None = None
    failure: RankFailed | None = None


def judge(outcome: LaunchOutcome, topology: Topology, workers: list[str], script: str) -> LaunchVerdict:
    """The first cause alone decides."""
    cause = first_cause(outcome.bad_ends)
    if outcome.stopped:
        said = f"stopped {script} on {count(topology.world_size, 'rank')}; what it had written is in the run's logs."
        return LaunchVerdict("stopped", STOPPED_EXIT_CODE, RunStopped(said))
    if outcome.killed_agent is not None and (cause is None or cause.error is None or cause.is_secondary):
        return _agent_killed(outcome.killed_agent, outcome, workers)
    if cause is not None and (not cause.is_secondary or not outcome.lost):
        return _raised(cause, outcome, script)
    if outcome.lost:
        names = ", ".join(f"{workers[node]} (node {node})" for node in outcome.lost)
        text = (
            f"Worker {names} no longer answers, so the launch was ended; its ranks end by themselves when they hear nothing "
            "from here. Next: look at that machine and its network, then launch again."
        )
        return LaunchVerdict("failed", 1, RunFailed(text))
    if outcome.agent_logs:
        return _torchrun_failed(outcome, workers)
    return LaunchVerdict("finished", 0)


def _raised(cause: BadEnd, outcome: LaunchOutcome, script: str) -> LaunchVerdict:
    error = cause.error
    report = error.text if error is not None else cause.last_words
    tracebacks = {end.place.rank: end.error.text for end in outcome.bad_ends if end.error is not None}
    failure = RankFailed(
        time=cause.time,
        rank=cause.place.rank,
        error_type=error.error_type if error is not None else how(cause.exit_code),
        message=error.message if error is not None else "",
        traceback=report,
    )
    told = describe(cause, script, outcome.exit_codes)
    return LaunchVerdict("failed", cause.shell_code, RunFailed(told, report=report, tracebacks=tracebacks), failure)


def _agent_killed(node: int, outcome: LaunchOutcome, workers: list[str]) -> LaunchVerdict:
    """Its ranks died with it, so their ends say nothing."""
    code = outcome.agent_codes[node] or 0
    text = (
        f"torchrun on node {node} (worker {workers[node]}) was ended by {how(code)}, its ranks with it, then the others. "
        "Next: look at the memory of that machine, then launch again."
    )
    return LaunchVerdict("failed", 128 - code, RunFailed(text))


def _torchrun_failed(outcome: LaunchOutcome, workers: list[str]) -> LaunchVerdict:
    """No rank ended badly by itself: torchrun could not start them."""
    node, log = next(iter(outcome.agent_logs.items()))
    lines = [line for line in log.splitlines() if line.strip()]
    last = lines[-1] if lines else "it said nothing"
    if last.startswith(_REFUSED):
        text = (
            f"{last.removeprefix(_REFUSED)} on worker {workers[node]}. Nothing was run. Next: fewer devices, or accelerator cpu."
        )
        return LaunchVerdict("failed", 1, PlanError(text))
    text = f"torchrun on node {node} (worker {workers[node]}) ended before the script did: {last}. Next: launch again."
    return LaunchVerdict("failed", 1, RunFailed(text, report=log))
