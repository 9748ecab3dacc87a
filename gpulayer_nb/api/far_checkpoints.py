"""The checkpoints of a run whose rank 0 was on another machine. Runs in the kernel."""

from __future__ import annotations

import json
from pathlib import Path

from gpulayer_nb.link.fetching import FarFolder
from gpulayer_nb.records.record import CheckpointSaved
from gpulayer_nb.records.run_folder import RunFolder


def far_folder(folder: RunFolder) -> FarFolder | None:
    """Where they are; None if they are in the run's folder itself."""
    try:
        return FarFolder(**json.loads(folder.elsewhere.read_text()))
    except FileNotFoundError:
        return None


def bring_all(folder: RunFolder) -> None:
    """Copies those that are left into the run's folder here; nothing for a run that left them here.

    Raises:
        ClusterError: the machine that has them cannot be asked.
    """
    far = far_folder(folder)
    if far is None:
        return
    saved = dict.fromkeys(Path(record.path) for record in folder.read_records() if isinstance(record, CheckpointSaved))
    if saved:
        for path in far.existing(list(saved)):
            far.copy(path, folder.checkpoints / path.name)
