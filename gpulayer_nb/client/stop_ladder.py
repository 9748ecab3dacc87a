"""How hard a run is stopped, and when harder. Pure: times in, stage out.

Runs in the kernel. Stage 1 asks for an end after a common step, 2 cuts the group and interrupts the code, 3 ends the engines.
"""

from __future__ import annotations

from dataclasses import dataclass

ASK, CUT, KILL = 1, 2, 3
ASK_SECONDS = 5.0  # a flush comes every quarter second, so this is for steps longer than that
CUT_SECONDS = 5.0


@dataclass
class StopLadder:
    """`stage` is 0 while nothing is to be stopped. Times are monotonic seconds."""

    stage: int = 0
    since: float = 0.0

    def raise_to(self, stage: int, now: float) -> bool:
        """True if this is a new stage."""
        stage = min(stage, KILL)
        if stage <= self.stage:
            return False
        self.stage, self.since = stage, now
        return True

    def press(self, now: float, can_ask: bool) -> bool:
        """The user asked (again): the first time gently if the run can end by itself, then one stage further each time."""
        return self.raise_to(self.stage + 1 if self.stage or can_ask else CUT, now)

    def tick(self, now: float) -> bool:
        """True if patience with the present stage has run out and the next one has begun."""
        limit = {ASK: ASK_SECONDS, CUT: CUT_SECONDS}.get(self.stage)
        if limit is None or now - self.since < limit:
            return False
        return self.raise_to(self.stage + 1, now)
