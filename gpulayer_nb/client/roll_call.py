"""Who has joined a cluster, as the planner wants it: asked of every worker at once.

Runs in the kernel. Owns the translation from what a supervisor tells to what the planner reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpulayer_nb.link.connection import Connection
from gpulayer_nb.link.supervisors import ask_workers, supervisors_of
from gpulayer_nb.plan.workers import Worker, with_distinct_names
from gpulayer_nb.records import wire
from gpulayer_nb.records.worker_state import WorkerState


@dataclass(frozen=True)
class RollCall:
    """`states` by the workers' keys; `unheard` are the names of those that do not answer, with the reason."""

    workers: list[Worker]
    states: dict[str, WorkerState]
    unheard: dict[str, str]

    @classmethod
    def of(cls, connection: Connection, token: str) -> RollCall:
        """Asks now.

        Args:
            token: this client's; what it has itself is free for it.
        """
        keys = list(supervisors_of(connection))
        replies = ask_workers(connection, {key: {} for key in keys}, wire.WORKER_STATE)
        states = {key: WorkerState.from_dict(reply["state"]) for key, reply in sorted(replies.items())}
        engines: dict[str, dict[int, str]] = {}
        for engine in connection.engines():
            identity = wire.EngineIdentity.parse(engine)
            if identity is not None:
                engines.setdefault(identity.worker, {})[identity.slot] = engine
        workers = with_distinct_names([_worker(state, engines.get(key, {}), token) for key, state in states.items()])
        return cls(workers, states, {wire.name_of_key(key): "does not answer" for key in keys if key not in states})


def _worker(state: WorkerState, engines: dict[int, str], token: str) -> Worker:
    facts = state.facts
    return Worker(
        key=state.worker,
        name=wire.name_of_key(state.worker),
        address=state.address,
        interface=state.interface,
        host=state.host,
        torch_version=facts.get("torch", ""),
        python_version=facts.get("python", ""),
        backends=tuple(facts.get("backends", ())),
        devices=state.devices,
        taken={slot: claim.by for claim in state.claims if claim.token != token for slot in claim.slots},
        engines=engines,
        cuda_devices=facts.get("cuda_devices", 0),
        mps=facts.get("mps", False),
        accelerator=state.accelerator,
        is_ready=state.phase == "up",
    )
