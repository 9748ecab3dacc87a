"""Saving and restoring the whole state of a fit, so that a resumed one equals one without a break.

Runs in a rank. Owns what a checkpoint holds; how a file is written is checkpoint's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gpulayer_nb.errors import UsageError
from gpulayer_nb.records.record import CheckpointSaved
from gpulayer_nb.train.checkpoint import FORMAT, bare_model, read, write
from gpulayer_nb.train.group import Group
from gpulayer_nb.train.hooks import Hooks
from gpulayer_nb.train.metric_log import EpochSums
from gpulayer_nb.train.model_checkpoint import ModelCheckpoint
from gpulayer_nb.train.precision import Precision
from gpulayer_nb.train.reporter import Reporter
from gpulayer_nb.train.running_fit import RunningFit
from gpulayer_nb.train.seed import FitSeeds, random_states


def find(resume: str, folders: Sequence[Path]) -> Path:
    """The file that `resume` means: a path; "last" for `last.pt` of the folders, or "best" for the best that it knows of.

    Raises:
        UsageError: there is none; names what was looked for.
    """
    if resume not in ("last", "best"):
        path = Path(resume)
    elif not folders:
        raise UsageError(f'resume="{resume}" needs a checkpoint folder to look in; give the path of a checkpoint.')
    else:
        there = [folder for folder in folders if any(folder.glob("*.pt"))] or list(folders)
        path = there[0] / "last.pt" if resume == "last" else _best(there[0])
    if not path.is_file():
        raise UsageError(f"there is no checkpoint {path}. Give the path of one, or fit without resume.")
    return path


def _best(folder: Path) -> Path:
    """What the newest checkpoint of a folder says is the best one; it may have been moved along with the folder."""
    newest = max(folder.glob("*.pt"), key=lambda path: path.stat().st_mtime, default=folder / "last.pt")
    states = read(newest, str(newest))["callbacks"].values() if newest.is_file() else ()
    best = next((state["best_model_path"] for state in states if state.get("best_model_path")), "")
    if not best:
        raise UsageError(
            f'no checkpoint in {folder} is known as the best: nobody watched a metric. Use "last", or '
            'callbacks=[glt.ModelCheckpoint(monitor="val_loss")] in the fit.'
        )
    return Path(best) if Path(best).is_file() else folder / Path(best).name


def fetch(resume: str, running: RunningFit, group: Group) -> dict[str, Any]:
    """The checkpoint's content on every rank. Only rank 0 needs to see the file.

    Raises:
        UsageError: there is none, or it cannot be read; on every rank.
    """
    data: bytes | None = None
    problem, name = "", resume
    if group.rank == 0:
        try:
            path = find(resume, _folders(running))
            data, name = path.read_bytes(), str(path)
        except UsageError as error:
            problem = str(error)
        except OSError as error:
            problem = f"the checkpoint {resume} cannot be read: {error}"
    problem, name = group.from_rank_zero((problem, name))
    if problem:
        raise UsageError(problem)
    return read(group.bytes_from_rank_zero(data), name)


def _folders(running: RunningFit) -> list[Path]:
    """Where "last" and "best" may be: the folder the options name, those of the callbacks, the fit's own."""
    given = running.options.resume_dir
    own = [callback.dirpath for callback in running.callbacks if isinstance(callback, ModelCheckpoint)]
    return [Path(folder) for folder in (given, *own, running.checkpoint_dir) if folder is not None]


class Saver:
    """Writes this fit's state, and puts it back."""

    def __init__(
        self,
        module: nn.Module,
        running: RunningFit,
        group: Group,
        precision: Precision,
        seeds: FitSeeds,
        hooks: Hooks,
        reporter: Reporter,
    ) -> None:
        self._module, self._running, self._group, self._precision = module, running, group, precision
        self._seeds, self._hooks, self._reporter = seeds, hooks, reporter

    def write(self, path: Path, on_all_ranks: bool) -> None:
        """Write the state as of now, on global rank 0; the others give what only they know, if all of them are here."""
        running = self._running
        within = self._within_epoch() if on_all_ranks and running.batches_done else None
        if not running.is_global_zero:
            return
        checkpoint = {**self._state(), "within_epoch": within}
        write(path, checkpoint)
        self._reporter.record(
            CheckpointSaved(
                time=time.time(), path=str(path), epoch=running.current_epoch, global_step=running.global_step,
                values=dict(running.epoch_metrics),
            )
        )  # fmt: skip

    def _within_epoch(self) -> dict[str, Any] | None:
        """Every rank's random numbers, and the sums of the epoch so far, so that its means will be those of the whole."""
        sums = self._running.metric_log.sums_so_far()
        mine = (random_states(), sums.values, sums.weights, self._running.epoch_samples)
        everybody = self._group.gather_on_rank_zero(mine)
        if not everybody:
            return None
        total = EpochSums(samples=sum(samples for *_, samples in everybody))
        for _, values, weights, _ in everybody:
            for name, value in values.items():
                total.add_all(name, value, weights[name])
        return {
            "random": [states for states, *_ in everybody],
            "values": total.values,
            "weights": total.weights,
            "samples": total.samples,
        }

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
            "callbacks": {
                _key(i, callback): callback.state_dict()
                for i, callback in enumerate(running.callbacks)
                if callable(getattr(callback, "state_dict", None))
            },
            "loggers": {
                _key(i, logger): {**logger.state_dict(), "step": running.global_step}
                for i, logger in enumerate(running.loggers)
                if callable(getattr(logger, "state_dict", None))
            },
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
            state = checkpoint["callbacks"].get(_key(i, callback))
            if state and callable(getattr(callback, "load_state_dict", None)):
                callback.load_state_dict(state)
        for i, logger in enumerate(running.loggers):
            if running.is_global_zero and (state := checkpoint.get("loggers", {}).get(_key(i, logger))):
                logger.load_state_dict(state)
        self._restore_within_epoch(checkpoint.get("within_epoch"))
        running.epochs_done, running.batches_done = checkpoint["epoch"], checkpoint["batch"]
        running.position.epoch, running.position.global_step = checkpoint["epoch"], checkpoint["global_step"]
        self._hooks.call("on_load_checkpoint", checkpoint)

    def _restore_within_epoch(self, within: dict[str, Any] | None) -> None:
        if within is None:
            return
        running = self._running
        if len(within["random"]) == running.world_size:
            running.random_states = within["random"]
        if running.is_global_zero:  # the sums are those of all ranks, so one rank alone takes them
            for name, value in within["values"].items():
                running.metric_log.sums.add_all(name, value, within["weights"][name])
            running.epoch_samples = within["samples"]


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
