"""Which client has which engines of this worker. Pure: requests and times in, grants out.

Runs in the supervisor. A claim lasts as long as its client renews it, so a notebook that was killed blocks nobody for long.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from gpulayer_nb.records.worker_state import Claim

SILENT_SECONDS = 12.0  # clients renew every two


@dataclass
class _Held:
    claim: Claim
    heard: float


class Claims:
    """For several threads. Times are monotonic seconds."""

    def __init__(self, devices: int) -> None:
        self._devices = devices
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()

    def take(self, token: str, by: str, slots: Sequence[int], now: float) -> str | None:
        """Gives these slots to one client, in place of what it had; why not, if it cannot be."""
        with self._lock:
            missing = [slot for slot in slots if not 0 <= slot < self._devices]
            if missing:
                return f"it has {self._devices} devices, not {max(missing) + 1}"
            for held in self._held.values():
                if held.claim.token != token and not set(slots).isdisjoint(held.claim.slots):
                    return f"busy with {held.claim.by}"
            self._held[token] = _Held(Claim(token=token, by=by, slots=tuple(slots)), now)
            return None

    def renew(self, token: str, now: float) -> bool:
        """False if this client has no claim (any more)."""
        with self._lock:
            held = self._held.get(token)
            if held is None:
                return False
            held.heard = now
            return True

    def release(self, token: str) -> tuple[int, ...]:
        """Ends a claim; returns the slots that are free now."""
        with self._lock:
            held = self._held.pop(token, None)
            return held.claim.slots if held is not None else ()

    def expire(self, now: float) -> list[Claim]:
        """Ends the claims of clients that have been silent for too long; returns them."""
        with self._lock:
            late = [held.claim for held in self._held.values() if now - held.heard > SILENT_SECONDS]
            for claim in late:
                del self._held[claim.token]
            return late

    def allows(self, token: str, slots: Sequence[int]) -> bool:
        with self._lock:
            held = self._held.get(token)
            return held is not None and set(slots) <= set(held.claim.slots)

    def current(self) -> tuple[Claim, ...]:
        with self._lock:
            return tuple(held.claim for held in self._held.values())
