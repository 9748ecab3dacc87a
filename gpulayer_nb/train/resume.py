"""Saving and restoring the whole state of a fit, so that a resumed one equals one without a break.

Runs in a rank. Owns what a checkpoint holds; how a file is written is checkpoint's.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gpulayer_nb.errors import UsageError
from gpulayer_nb.records.record import CheckpointSaved
from gpulayer_nb.train.checkpoint import FORMAT, bare_model, read, write
from gpulayer_nb.train.group import Group
from gpulayer_nb.train.hooks import Hooks
from gpulayer_nb.train.precision import Precision
from gpulayer_nb.train.reporter import Reporter
from gpulayer_nb.train.running_fit import RunningFit
from gpulayer_nb.train.seed import FitSeeds


def find(resume: str, checkpoint_dir: Path | None) -> Path:
    """The file that `resume` means: a path, or "last" for `last.pt` of the checkpoint folder.

    Raises:
        UsageError: there is none; names what was looked for.
    """
    if resume != "last":
        path = Path(resume)
    elif checkpoint_dir is None:
        raise UsageError('resume="last" needs a checkpoint folder to look in; give the path of a checkpoint.')
    else:
        path = checkpoint_dir / "last.pt"
    if not path.is_file():
        raise UsageError(f"there is no checkpoint {path}. Give the path of one, or fit without resume.")
    return path


def fetch(resume: str, checkpoint_dir: Path | None, group: Group) -> dict[str, Any]:
    """The checkpoint's content on every rank. Only rank 0 needs to see the file.

    Raises:
        UsageError: there is none, or it cannot be read; on every rank.
    """
    data: bytes | None = None
    problem, name = "", resume
    if group.rank == 0:
        try:
            path = find(resume, checkpoint_dir)
            data, name = path.read_bytes(), str(path)
        except UsageError as error:
            problem = str(error)
        except OSError as error:
            problem = f"the checkpoint {resume} cannot be read: {error}"
    problem, name = group.from_rank_zero((problem, name))
    if problem:
        raise UsageError(problem)
    return read(group.bytes_from_rank_zero(data), name)


class Saver:
    """Writes this fit's state, and puts it back."""

    def __init__(
        self, module: nn.Module, running: RunningFit, precision: Precision, seeds: FitSeeds, hooks: Hooks, reporter: Reporter
    ) -> None:
        self._module, self._running, self._precision = module, running, precision
        self._seeds, self._hooks, self._reporter = seeds, hooks, reporter

    def write(self, path: Path) -> None:
        """Write the state as of now; on global rank 0 only."""
        running = self._running
        checkpoint = self._state()
        write(path, checkpoint)
        self._reporter.record(
            CheckpointSaved(
                time=time.time(), path=str(path), epoch=running.current_epoch, global_step=running.global_step,
                values=dict(running.epoch_metrics),
            )
        )  # fmt: skip

    def _state(self) -> dict[str, Any]:
        running = self._running
        optimization = running.optimization
        assert optimization is not None
        checkpoint = {
            "format": FORMAT,
            "epoch": running.epochs_done,
            "batch": running.batches_done,
            "global_step": running.global_step,
            "model": dict(bare_model(self._module).state_dict()),
            "optimizers": [optimizer.state_dict() for optimizer in optimization.optimizers],
            "schedulers": [rule.scheduler.state_dict() for rule in optimization.rules],
            "scaler": None if self._precision.scaler is None else self._precision.scaler.state_dict(),
            "seeds": [self._seeds.torch, self._seeds.numpy, self._seeds.python],
            "callbacks": {_key(i, callback): callback.state_dict() for i, callback in enumerate(running.callbacks)},
            "metrics": dict(running.epoch_metrics),
        }
        self._hooks.call("on_save_checkpoint", checkpoint)
        on_cpu: dict[str, Any] = _on_cpu(checkpoint)
        return on_cpu

    def restore(self, checkpoint: dict[str, Any], name: str) -> None:
        """Put everything but the weights back.

        Raises:
            UsageError: the fit has other optimizers or schedulers than the checkpoint.
        """
        running = self._running
        optimization = running.optimization
        assert optimization is not None
        for what, saved, present in (
            ("optimizers", checkpoint["optimizers"], optimization.optimizers),
            ("schedulers", checkpoint["schedulers"], optimization.rules),
        ):
            if len(saved) != len(present):
                raise UsageError(f"{name} holds {len(saved)} {what}, the fit has {len(present)}. Resume with the same set-up.")
        for optimizer, state in zip(optimization.optimizers, checkpoint["optimizers"], strict=True):
            try:
                optimizer.load_state_dict(state)
            except ValueError as error:
                raise UsageError(f"{name} does not fit the {type(optimizer).__name__} optimizer: {error}") from error
        for rule, state in zip(optimization.rules, checkpoint["schedulers"], strict=True):
            rule.scheduler.load_state_dict(state)
        if self._precision.scaler is not None and checkpoint["scaler"]:
            self._precision.scaler.load_state_dict(checkpoint["scaler"])
        for i, callback in enumerate(running.callbacks):
            if state := checkpoint["callbacks"].get(_key(i, callback)):
                callback.load_state_dict(state)
        running.epochs_done, running.batches_done = checkpoint["epoch"], checkpoint["batch"]
        running.position.epoch, running.position.global_step = checkpoint["epoch"], checkpoint["global_step"]
        self._hooks.call("on_load_checkpoint", checkpoint)


def _key(index: int, callback: object) -> str:
    return f"{index}:{type(callback).__name__}"


def _on_cpu(value: Any) -> Any:
    """The same with every tensor in main memory, so that a laptop without the device can load it."""
    if isinstance(value, Tensor):
        return value.detach().to(torch.device("cpu"))
    if isinstance(value, dict):
        return {name: _on_cpu(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_on_cpu(part) for part in value) if type(value) in (list, tuple) else value
    return value
