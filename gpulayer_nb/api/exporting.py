"""`%gpulayer export`: the last training cell as a script. Runs in the kernel; owns which files are written where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpulayer_nb.client.run_request import RunRequest
from gpulayer_nb.client.run_specs import parts_spoken_of, uses_of_a_fit
from gpulayer_nb.errors import UsageError
from gpulayer_nb.export.cell_body import cell_body
from gpulayer_nb.export.cell_history import CellHistory
from gpulayer_nb.export.script import GIVEN, ExportedCell, data_file_name, sbatch_text, script_text
from gpulayer_nb.export.sources import Sources

FORMS = ("torchrun", "slurm")


def export(request: RunRequest | None, namespace: dict[str, Any], cells: Sequence[str], file: str | Path, to: str) -> list[Path]:
    """Writes the script, its data if it has some, and for Slurm the batch file; returns what was written.

    Args:
        request: the last training.
        cells: plain Python of the notebook's cells, oldest first.
        file: the script's path, or the batch file's (`.sbatch` or `.sh`), whose script gets the same name.

    Raises:
        UsageError: there is no such cell, or one that no script can repeat.
        ShippingError: something that the cell uses cannot be written down.
    """
    if request is None:
        raise UsageError(
            "No training cell has run in this notebook yet. Next: run one that begins with `%%gpulayer`, then export."
        )
    if request.mode != "train":
        raise UsageError(
            "The last training was `trainer.fit`, which needs gpulayer_nb. Nothing was written. "
            "Next: train a plain model in a `%%gpulayer` cell and export that, or run your script with `%gpulayer launch`."
        )
    _check_options(request)
    script, batch = _paths(Path(file), to)
    cell = _cell(request, namespace)
    sources = Sources(namespace, CellHistory(cells), GIVEN)
    sources.need(cell.body + "\n" + uses_of_a_fit(request))
    _check_parts(request, cell, namespace)
    text = script_text(cell, sources, script.name)
    compile(text, str(script), "exec")
    written = [script]
    if sources.data.values:
        data = script.with_name(data_file_name(script.name))
        sources.data.write(data)
        written.append(data)
    script.write_text(text)
    if batch is not None:
        batch.write_text(sbatch_text(cell, script.resolve()))
        written.append(batch)
    return written


def _cell(request: RunRequest, namespace: dict[str, Any]) -> ExportedCell:
    first, _, body = request.source.partition("\n")
    return ExportedCell(
        body=cell_body(body, request.python.partition("\n")[2]),
        magic=first.removeprefix("#").strip(),
        topology=request.topology,
        accelerator=request.accelerator,
        options=request.options,
        names=request.names,
        parts=parts_spoken_of(request, namespace),
        env=request.env,
    )


def _check_options(request: RunRequest) -> None:
    options = request.options
    if options.resume is not None:
        raise UsageError(
            "The cell resumed a run, which a script of its own cannot. Next: run the cell without --resume, then export."
        )
    if options.max_time_seconds is not None:
        raise UsageError(
            "The cell ends after --max-time, so its result depends on the machine. Nothing was written. "
            "Next: run it with --epochs or --max-steps, then export."
        )


def _check_parts(request: RunRequest, cell: ExportedCell, namespace: dict[str, Any]) -> None:
    if request.names.callbacks in cell.parts:
        raise UsageError(
            f"The cell has `{request.names.callbacks}`, which are gpulayer_nb's. Nothing was written. "
            "Next: run it without them, then export."
        )


def _paths(file: Path, to: str) -> tuple[Path, Path | None]:
    """The script's path and the batch file's."""
    if to not in FORMS:
        raise UsageError(f"--to is {to!r}; it is one of {', '.join(FORMS)}.")
    if not file.parent.is_dir():
        raise UsageError(f"There is no folder {file.parent}. Next: make it, or give another path.")
    if to == "torchrun":
        if file.suffix != ".py":
            raise UsageError(f"{file} does not end in .py. Next: `%gpulayer export {file.with_suffix('.py')}`.")
        return file, None
    return file.with_suffix(".py"), file if file.suffix in (".sbatch", ".sh") else file.with_suffix(".sbatch")
