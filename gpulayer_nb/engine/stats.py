"""What this process uses: processor, memory, GPU.

Runs in each rank's process on the control thread, so it answers while the main thread is busy. Never initialises CUDA.
"""

from __future__ import annotations

import os
import time

import psutil
import torch

from gpulayer_nb.engine.collectives import CollectiveLog
from gpulayer_nb.engine.status import memory_bytes
from gpulayer_nb.records.rank_stats import RankStats


def rank_stats(run_id: str | None, collectives: CollectiveLog) -> RankStats:
    inside = collectives.inside
    name, held, total, busy = _gpu()
    return RankStats(
        pid=os.getpid(),
        clock=time.monotonic(),
        run_id=run_id,
        cpu_seconds=time.process_time(),
        memory_bytes=memory_bytes(torch.device("cpu")),
        machine_bytes=psutil.virtual_memory().total,
        gpu_name=name,
        gpu_memory_bytes=held,
        gpu_total_bytes=total,
        gpu_percent=busy,
        collective=inside,
        entered=collectives.entered,
    )


def _gpu() -> tuple[str | None, int | None, int | None, float | None]:
    """Name, bytes torch holds, bytes in all, use in per cent of the device this rank works on."""
    if not (torch.cuda.is_available() and torch.cuda.is_initialized()):  # type: ignore[no-untyped-call]  # not annotated in torch
        return None, None, None, None
    device = torch.cuda.current_device()
    properties = torch.cuda.get_device_properties(device)
    try:
        busy: float | None = float(torch.cuda.utilization(device))
    except (ModuleNotFoundError, RuntimeError):  # without NVML's Python package, or where the driver does not tell
        busy = None
    return properties.name, torch.cuda.memory_reserved(device), properties.total_memory, busy
