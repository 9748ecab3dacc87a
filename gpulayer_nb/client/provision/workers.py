"""Workers that were started through something else, and how they fare.

Runs in the kernel. Owns the interface: start, watch, end. Whoever fulfils it asks Slurm or ssh; it schedules nothing itself.
"""

from __future__ import annotations

from typing import Any, Protocol

from gpulayer_nb.client.cluster import Say


class StartedWorkers(Protocol):
    def start(self, info: dict[str, Any], say: Say) -> None:
        """Asks for the workers; they need not be there yet.

        Args:
            info: the engines' connection file.

        Raises:
            ClusterError: refused, in the words of whoever refused.
        """

    def progress(self) -> str:
        """What the workers are waiting for, in a few words; "" if nothing is known.

        Raises:
            ClusterError: they will not come, or not all of them; says why.
        """

    def is_lost(self, worker: str) -> bool:
        """Whether this worker is known to have ended. Costs nothing."""

    def why_lost(self, worker: str) -> str | None:
        """What is known about the end of this worker, as one clause."""

    def ended(self) -> str | None:
        """Why it is no longer whole; None as long as all goes on."""

    @property
    def leases(self) -> tuple[int, ...]:
        """File descriptors that keep the workers alive as long as any process holds them open."""

    def let_go(self) -> None:
        """Another process holds the leases now: the workers are no longer ours to end."""

    def end(self) -> None:
        """Ends all workers, and waits for it a few seconds."""
