"""A rank's pulse: what it is doing, once a second.

Runs in each rank's process on a thread of its own. Owns the measuring of memory and pace.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

from gpulayer_nb.records.record import RankStatus
from gpulayer_nb.train.position import FitPosition

PERIOD_SECONDS = 1.0


def memory_bytes(device: torch.device) -> int | None:
    """What torch holds on a CUDA device; elsewhere the process's own share (PSS: shared pages count in part). None if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.memory_reserved(device))
    try:
        text = Path("/proc/self/smaps_rollup").read_text()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), None)


class Pulse:
    """Publishes a RankStatus every second between `start` and `stop`; the fit keeps `position` up to date."""

    def __init__(self, rank: int, device: torch.device, publish: Callable[[RankStatus], None], position: FitPosition) -> None:
        self._rank, self._device, self._publish, self._position = rank, device, publish, position
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpulayer-pulse", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(timeout=2 * PERIOD_SECONDS)

    def _run(self) -> None:
        before, samples = time.monotonic(), self._position.samples
        while not self._ended.wait(PERIOD_SECONDS):
            now, total = time.monotonic(), self._position.samples
            rate = (total - samples) / (now - before) if self._position.global_step else None
            before, samples = now, total
            self._publish(
                RankStatus(
                    rank=self._rank,
                    state="running",
                    global_step=self._position.global_step,
                    samples_per_second=rate,
                    memory_bytes=memory_bytes(self._device),
                )
            )
