"""Runs a peer's script under torchrun on 4 ranks of this machine and reads the number that its rank 0 writes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workload import RANKS

HERE = Path(__file__).parent
TIMEOUT_SECONDS = 300


def start_to_first_step() -> float:
    """Seconds from the start of torchrun to the first optimizer step."""
    started = time.time()
    return _number("first_step.py") - started


def steps_per_second(workload: str) -> float:
    """Optimizer steps per second of the hand-written loop."""
    return _number("plain_loop.py", workload)


def _number(script: str, *arguments: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer")
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS), "--master-port", str(_free_port()),
             str(HERE / "peers" / script), *arguments, str(answer)],
            env={**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"},
            capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(f"torchrun of {script} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return float(answer.read_text())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
