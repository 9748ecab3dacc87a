"""`%gpulayer export [--to torchrun|slurm] FILE`."""

from __future__ import annotations

from gpulayer_nb.api.current import namespace, session
from gpulayer_nb.errors import UsageError
from gpulayer_nb.magics.options import export_parser


def export(rest: str) -> str:
    """Writes the last training cell; says what was written and how to run it."""
    from gpulayer_nb.api.exporting import export as write

    options = export_parser().read(rest)
    shell = namespace().get("get_ipython")
    if not callable(shell):
        raise UsageError("export is for notebooks: it reads their cells.")
    training = session().last_training
    written = write(training, namespace(), shell().history_manager.input_hist_parsed, options.file, options.to)
    names = ", ".join(str(path) for path in written)
    script, last = written[0], written[-1]
    ranks = f"torchrun --nproc-per-node {training.topology.world_size if training else 1} {script}"
    return f"Wrote {names}. Next: `{f'sbatch {last}' if options.to == 'slurm' else ranks}`."
