"""Where "last" and "best" are looked for: in the folder of an earlier run. Runs in the kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpulayer_nb.api.far_checkpoints import bring_all
from gpulayer_nb.errors import UsageError
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.records.run_folder import RunFolder, default_root


def with_folder(options: FitOptions, root: Path | None, last_run: Path | None = None) -> FitOptions:
    """The options with the folder that "last" or "best" means; others as they are.

    Args:
        root: holds the runs; None for the user's own data folder.
        last_run: the run that is meant, if it has checkpoints; else it is the newest that has.

    Raises:
        UsageError: no run has a checkpoint.
        ClusterError: the newest run that has one left it on a machine that cannot be asked.
    """
    if options.resume not in ("last", "best") or options.checkpoint_dir is not None or options.resume_dir is not None:
        return options
    runs = (root or default_root()) / "runs"
    candidates = [*filter(None, [last_run]), *sorted(runs.glob("*"), reverse=True)]
    for run in candidates:
        bring_all(RunFolder(run))
        folder = RunFolder(run).checkpoints
        if any(folder.glob("*.pt")):
            return replace(options, resume_dir=str(folder))
    raise UsageError(
        f"there is no checkpoint to resume from: no run in {runs} has one. "
        f'Next: give the path of a checkpoint instead of "{options.resume}".'
    )
