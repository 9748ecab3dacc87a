"""Cells that are disturbed once they are really at work: how long a machine takes until then is not what is tested."""

from __future__ import annotations

import tempfile
from pathlib import Path

from real_notebook import Notebook
from waiting import wait_until


def send_at_work(notebook: Notebook, cell: str, ranks: int = 4, folder: Path | None = None) -> str:
    """Sends a cell; returns its message's id once every rank has begun it.

    Args:
        folder: one that all ranks see, if they do not see this machine's /tmp.
    """
    magic, _, body = cell.partition("\n")
    with tempfile.TemporaryDirectory(dir=folder) as begun:
        mark = f"with __import__('pathlib').Path({begun!r}, str(rank)).open('w'): pass"
        sent = notebook.send(f"{magic}\n{mark}\n{body}")
        wait_until(lambda: len(list(Path(begun).iterdir())) == ranks)
    return sent


def send_training(notebook: Notebook, cell: str, home: Path) -> str:
    """Sends a training cell; returns its message's id once its ranks have made steps.

    Args:
        home: where the run's folder will be.
    """
    before = set(_runs(home))
    sent = notebook.send(cell)
    wait_until(lambda: any(_has_steps(run) for run in set(_runs(home)) - before))
    return sent


def _runs(home: Path) -> list[Path]:
    return list((home / "runs").glob("*"))


def _has_steps(run: Path) -> bool:
    """Whether the notebook has heard of a step."""
    try:
        lines = (run / "records.jsonl").read_text().splitlines()
    except OSError:
        return False
    return any("step_metrics" in line for line in lines)
