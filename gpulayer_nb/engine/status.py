"""A rank's pulse: what it is doing, once a second.

Runs in each rank's process on a thread of its own. Owns the measuring of memory and pace.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

from gpulayer_nb.records.record import RankStatus
from gpulayer_nb.train.position import FitPosition

PERIOD_SECONDS = 1.0
PSS_EVERY = 20  # pulses; reading it takes 15 ms of processor time, for the system looks at every page


def memory_bytes(device: torch.device) -> int | None:
    """What torch holds on a CUDA device; elsewhere the process's own share (PSS: shared pages count in part). None if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.memory_reserved(device))
    try:
        text = Path("/proc/self/smaps_rollup").read_text()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), None)


def _resident_bytes() -> int:
    """Pages in main memory, shared ones counted in whole; read in some microseconds."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class MemoryGauge:
    """`memory_bytes` at next to no cost: between two readings of PSS it is carried on by the growth of what is resident."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._readings = 0
        self._offset: int | None = None  # PSS less what is resident, at the last reading of PSS

    def read(self) -> int | None:
        if self._device.type == "cuda":
            return memory_bytes(self._device)
        if self._readings % PSS_EVERY == 0:
            share = memory_bytes(self._device)
            self._offset = None if share is None else share - _resident_bytes()
        self._readings += 1
        return None if self._offset is None else max(0, self._offset + _resident_bytes())


class Pulse:
    """Publishes a RankStatus every second between `start` and `stop`; the fit keeps `position` up to date."""

    def __init__(self, rank: int, device: torch.device, publish: Callable[[RankStatus], None], position: FitPosition) -> None:
        self._rank, self._publish, self._position = rank, publish, position
        self._memory = MemoryGauge(device)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpulayer-pulse", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(timeout=2 * PERIOD_SECONDS)

    def _run(self) -> None:
        position = self._position
        before, samples, step, own = time.monotonic(), position.samples, position.global_step, position.own_seconds
        while not self._ended.wait(PERIOD_SECONDS):
            now, total = time.monotonic(), position.samples
            rate = (total - samples) / (now - before) if position.global_step else None
            steps, spent = position.global_step - step, position.own_seconds - own
            before, samples, step, own = now, total, position.global_step, position.own_seconds
            self._publish(
                RankStatus(
                    rank=self._rank,
                    state="running",
                    global_step=step,
                    samples_per_second=rate,
                    memory_bytes=self._memory.read(),
                    own_seconds=spent / steps if steps > 0 else None,
                )
            )
