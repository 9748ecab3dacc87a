"""How many steps to wait until the next exchange of metrics.

Runs anywhere; rank 0's answer is used by all ranks. Owns the pace only. Must not know how metrics are exchanged.
"""

from __future__ import annotations

TARGET_SECONDS = 0.25  # between two exchanges: five redraws a second want something new each time
GROWTH = 4  # a first step is often slow (imports, caches), so one measurement may not decide too much


def steps_until_flush(
    step_seconds: float, previous_steps: int, *, target_seconds: float = TARGET_SECONDS, growth: int = GROWTH
) -> int:
    """The number of steps whose time is nearest to the target, at most `growth` times the last one, at least 1.

    Args:
        step_seconds: measured time of one step since the last exchange.
        previous_steps: how many steps lay between the last two exchanges.
    """
    most = max(1, previous_steps) * growth
    if step_seconds * most <= target_seconds:
        return most
    return max(1, round(target_seconds / step_seconds))
