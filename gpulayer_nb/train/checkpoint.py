"""Checkpoint files: one writer, always whole, loadable anywhere.

Written by global rank 0 only. Owns the file's form. `torch.load(path, weights_only=True)["model"]` is the plain model's
state, without any prefix.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import nn

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.plain import PlainTask

FORMAT = 1


def bare_model(module: nn.Module) -> nn.Module:
    """The user's own model: a plain task's `model`, else the module itself."""
    return module.model if isinstance(module, PlainTask) else module


def write(path: Path, checkpoint: dict[str, Any]) -> None:
    """Write the file beside its place and move it there, so that a reader finds the old or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with open(unfinished, "wb") as file:
            torch.save(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    _sync_folder(path.parent)


def read(file: BinaryIO | Path, name: str, device: torch.device | str = "cpu") -> dict[str, Any]:
    """A checkpoint's content.

    Raises:
        UsageError: it is none of ours, or it is damaged.
    """
    try:
        checkpoint = torch.load(file, map_location=device, weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else repr(error)
        raise UsageError(f"{name} cannot be read as a checkpoint: {reason}") from error
    if not isinstance(checkpoint, dict) or "model" not in checkpoint or "format" not in checkpoint:
        raise UsageError(
            f'{name} is no checkpoint of gpulayer_nb: it has no "model" with a "format". '
            "Load weights yourself with load_state_dict."
        )
    if checkpoint["format"] != FORMAT:
        raise UsageError(f"{name} has the checkpoint format {checkpoint['format']}; this release reads format {FORMAT}.")
    return checkpoint


def load_weights(module: nn.Module, checkpoint: dict[str, Any], name: str) -> None:
    """Put a checkpoint's weights into the user's model, strictly.

    Raises:
        UsageError: the model has other layers than the file; names the first ones.
    """
    try:
        bare_model(module).load_state_dict(checkpoint["model"])
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise UsageError(f"{name} does not fit the model: {' '.join(lines[1:4]) or lines[0]}") from error


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, where the system can open a folder."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
