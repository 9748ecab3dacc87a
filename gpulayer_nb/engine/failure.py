"""Turns an exception on a rank into the record that the notebook shows.

Runs in each rank's process. Owns the search for the user's own line and the guess whether the error is only an echo.
"""

from __future__ import annotations

import time
import traceback
from types import TracebackType
from typing import Any

from gpulayer_nb.errors import ClusterError, GpuLayerError
from gpulayer_nb.records.echoes import ECHO_TYPES, is_echo_text
from gpulayer_nb.records.record import RankFailed


def is_echo(error: BaseException, group_was_cut: bool) -> bool:
    """Whether the error only says that another rank has failed, or that we were told to stop."""
    if isinstance(error, (KeyboardInterrupt, ClusterError)):  # a group that could not be made: another may have failed meanwhile
        return True
    if type(error).__name__ in ECHO_TYPES:
        return True
    return isinstance(error, RuntimeError) and (is_echo_text(str(error)) or (group_was_cut and "gloo" in str(error)))


def user_line(shell: Any, trace: TracebackType | None) -> tuple[int | None, int | None]:
    """Execution count and line of the cell code nearest to the error; (None, None) if no cell is on the stack."""
    cells: dict[str, int] = shell.compile._filename_map
    for frame in reversed(traceback.extract_tb(trace)):
        if frame.filename in cells:
            return cells[frame.filename], frame.lineno
    return None, None


def describe(shell: Any, rank: int, error: BaseException, group_was_cut: bool, position: Any) -> RankFailed:
    """The record of a failure, with Python's own traceback: IPython's takes a quarter of a second, while peers would wait.

    Args:
        position: where the fit was (`epoch`, `batch_index`, `global_step`), or None.
    """
    cell, line = user_line(shell, error.__traceback__)
    if isinstance(error, SyntaxError) and line is None:
        line = error.lineno
    return RankFailed(
        time=time.time(),
        rank=rank,
        error_type=type(error).__name__,
        message=_message(error),
        traceback="" if isinstance(error, GpuLayerError) else "".join(traceback.format_exception(error)),
        cell=cell,
        cell_line=line,
        epoch=getattr(position, "epoch", None),
        batch_index=getattr(position, "batch_index", None),
        global_step=getattr(position, "global_step", None),
        consequence=is_echo(error, group_was_cut),
    )


def draw(shell: Any, error: BaseException) -> str:
    """The traceback as IPython shows it to a user; empty for an error whose message says all."""
    if isinstance(error, GpuLayerError):
        return ""
    return "\n".join(shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__))


def _message(error: BaseException) -> str:
    """The error's own words; torch says nothing of the loader worker whose end breaks the pipe that a batch comes through."""
    own = str(error)
    in_loader = any(
        frame.filename.endswith("torch/utils/data/dataloader.py") for frame in traceback.extract_tb(error.__traceback__)
    )
    if in_loader and isinstance(error, (ConnectionError, EOFError)):
        return f"{own} (a DataLoader worker exited unexpectedly, often out of memory; num_workers=0 shows an error of its own)"
    return own


def forget(error: BaseException) -> None:
    """Lets go of everything the traceback holds: models, loader workers, groups."""
    seen: BaseException | None = error
    while seen is not None:
        traceback.clear_frames(seen.__traceback__)
        seen = seen.__cause__ or seen.__context__
