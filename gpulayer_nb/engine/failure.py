"""Turns an exception on a rank into the record that the notebook shows.

Runs in each rank's process. Owns the search for the user's own line and the guess whether the error is only an echo.
"""

from __future__ import annotations

import re
import traceback
from types import TracebackType
from typing import Any

from gpulayer_nb.errors import GpuLayerError
from gpulayer_nb.records.record import RankFailed

# What gloo, NCCL and the store say when a peer has gone or our own abort has cut the connection (torch 2.6–2.13).
_ECHO = re.compile(
    r"connection (closed|reset) by peer|broken pipe|connection was likely closed|Application timeout caused pair closure"
    r"|socket (error|closed)|Socket is not connected|recvBytes|sendBytes|Software caused connection abort|Transport endpoint"
    r"|writev|readv|NCCL communicator was aborted|read error|wait timeout",
    re.IGNORECASE,
)


def is_echo(error: BaseException, group_was_cut: bool) -> bool:
    """Whether the error only says that another rank has failed, or that we were told to stop."""
    if isinstance(error, KeyboardInterrupt):
        return True
    if type(error).__name__ in ("DistBackendError", "DistNetworkError", "DistStoreError"):
        return True
    return isinstance(error, RuntimeError) and (_ECHO.search(str(error)) is not None or (group_was_cut and "gloo" in str(error)))


def user_line(shell: Any, trace: TracebackType | None) -> tuple[int | None, int | None]:
    """Execution count and line of the cell code nearest to the error; (None, None) if no cell is on the stack."""
    cells: dict[str, int] = shell.compile._filename_map
    for frame in reversed(traceback.extract_tb(trace)):
        if frame.filename in cells:
            return cells[frame.filename], frame.lineno
    return None, None


def describe(shell: Any, rank: int, error: BaseException, text: str, group_was_cut: bool, position: Any) -> RankFailed:
    """The record of a failure.

    Args:
        text: the traceback as shown to the user; made here if empty.
        position: where the fit was (`epoch`, `batch_index`, `global_step`), or None.
    """
    cell, line = user_line(shell, error.__traceback__)
    if isinstance(error, SyntaxError) and line is None:
        line = error.lineno
    if not text and not isinstance(error, GpuLayerError):
        text = "\n".join(shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__))
    return RankFailed(
        rank=rank,
        error_type=type(error).__name__,
        message=_message(error),
        traceback=text,
        cell=cell,
        cell_line=line,
        epoch=getattr(position, "epoch", None),
        batch_index=getattr(position, "batch_index", None),
        global_step=getattr(position, "global_step", None),
        consequence=is_echo(error, group_was_cut),
    )


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
