"""Starts engines on several workers and waits until all are registered, or says which are not, and why.

Runs in the kernel. Owns the waiting; what is up afterwards is the caller's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from gpulayer_nb.client.cluster import Say
from gpulayer_nb.errors import ClusterError
from gpulayer_nb.link.connection import Connection
from gpulayer_nb.link.supervisors import ask_workers, refusal
from gpulayer_nb.plan.placement import Placement
from gpulayer_nb.plan.topology import count
from gpulayer_nb.records import wire
from gpulayer_nb.records.worker_state import WorkerState

START_SECONDS = 120.0  # as on this machine: importing torch from a cold disk
_LOOK_SECONDS = 1.0
_POLL_SECONDS = 0.02

Slot = tuple[str, int]  # a worker's key and one of its slots


class EngineStart:
    """Engines in these slots of a placement, which is claimed already."""

    def __init__(self, connection: Connection, placement: Placement, wanted: Sequence[Slot], say: Say) -> None:
        self._connection, self._placement, self._wanted, self._say = connection, placement, wanted, say
        self._names = {node.worker.key: node.worker.name for node in placement.nodes}
        self._old = set(connection.engines())

    def run(self, token: str) -> dict[Slot, str]:
        """The engines' uuids, once all are registered.

        Raises:
            ClusterError: one does not come up; says why.
        """
        contents = {}
        for node in self._placement.nodes:
            slots = [slot for key, slot in self._wanted if key == node.worker.key]
            if slots:
                gpus = list(node.slots) if self._placement.accelerator == "cuda" else None
                content = {"slots": slots, "nodes": 1, "devices": len(node.slots), "gpus": gpus, "claim": token}
                contents[node.worker.key] = content
        replies = ask_workers(self._connection, contents, wire.START_ENGINES)
        for key in contents:
            if why := refusal(replies.get(key)):
                raise ClusterError(f"Worker {self._names[key]} started no engines: {why}. Next: run the cell again.")
        return self._wait()

    def _wait(self) -> dict[Slot, str]:
        deadline = time.monotonic() + START_SECONDS
        looked, shown = time.monotonic(), -1
        while True:
            found = self._registered()
            if len(found) == len(self._wanted):
                return found
            if len(found) != shown:
                shown = len(found)
                self._say(f"{shown} of {count(len(self._wanted), 'rank')} up")
            missing = [slot for slot in self._wanted if slot not in found]
            if time.monotonic() - looked > _LOOK_SECONDS:
                looked = time.monotonic()
                self._look_for_deaths(missing)
            if time.monotonic() > deadline:
                names = ", ".join(sorted({self._names[key] for key, _ in missing}))
                raise self._refused(missing, f"no more came in {START_SECONDS:.0f} s; those of {names} are missing")
            time.sleep(_POLL_SECONDS)

    def _registered(self) -> dict[Slot, str]:
        up: dict[Slot, str] = {}
        for engine in self._connection.engines():
            identity = wire.EngineIdentity.parse(engine)
            if engine not in self._old and identity is not None:
                up[identity.worker, identity.slot] = engine
        return {slot: up[slot] for slot in self._wanted if slot in up}

    def _look_for_deaths(self, missing: Sequence[Slot]) -> None:
        keys = sorted({key for key, _ in missing})
        replies = ask_workers(self._connection, {key: {} for key in keys}, wire.WORKER_STATE)
        for key in keys:
            if key not in replies:
                raise self._refused(missing, f"worker {self._names[key]} stopped answering")
            state = WorkerState.from_dict(replies[key]["state"])
            present = {engine.slot for engine in state.engines}
            for death in reversed(state.deaths):
                if not death.expected and (key, death.slot) in missing and death.slot not in present:
                    how = f"signal {death.signal}" if death.signal else f"exit code {death.exit_code}"
                    raise self._refused(missing, f"engine {death.slot} of worker {self._names[key]} ended with {how}")

    def _refused(self, missing: Sequence[Slot], why: str) -> ClusterError:
        up = len(self._wanted) - len(missing)
        return ClusterError(
            f"{up} of {count(len(self._wanted), 'rank')} came up: {why}. All were stopped. "
            "Next: look at that worker's log, then run the cell again."
        )
