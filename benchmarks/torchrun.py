"""Runs a peer's script under torchrun on 4 ranks of this machine and reads the number that its rank 0 writes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workload import RANKS

from gpulayer_nb.link.ports import HeldPort

HERE = Path(__file__).parent
TIMEOUT_SECONDS = 300


def start_to_first_step(script: str) -> float:
    """Seconds from the start of torchrun to the first optimizer step of a script."""
    started = time.time()
    return number(script) - started


def raise_to_end() -> float:
    """Seconds from a rank's error until torchrun has ended."""
    raised = number("raising_loop.py", fails=True)
    return time.time() - raised


def steps_per_second(script: str, workload: str) -> float:
    """Optimizer steps per second of a peer's loop."""
    return number(script, workload)


def number(script: str, *arguments: str, fails: bool = False, ranks: int = RANKS) -> float:
    """What rank 0 of a peer's script writes into the file that is its last argument."""
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(HeldPort("127.0.0.1")) as port:
        answer = Path(folder, "answer")
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port", str(port.number),
             str(HERE / "peers" / script), *arguments, str(answer)],
            env={**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"},
            capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
        measured = done.returncode == 0 or answer.exists()  # torch 2.13 may abort where a group ends, after the measurement
        if not (done.returncode if fails else measured):
            raise SystemExit(f"torchrun of {script} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return float(answer.read_text())
