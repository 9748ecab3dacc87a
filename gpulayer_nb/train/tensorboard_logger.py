"""Writes every step's means and every epoch's as TensorBoard scalars. Runs on global rank 0; needs the package tensorboard."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.logger import versioned


class TensorBoardLogger:
    """Scalars under the metrics' names; `tensorboard --logdir` on `save_dir`, or on the run's folder.

    Args:
        save_dir: files go to `<save_dir>/<name>/version_<n>`; None: to `<run folder>/<name>`.
        version: a number or a folder's name; None takes the next free number.

    Raises:
        UsageError: the package is not installed.
    """

    def __init__(self, save_dir: str | Path | None = None, name: str = "tensorboard", version: int | str | None = None) -> None:
        _check_installed()
        self.save_dir, self.name, self.version = save_dir, name, version
        self.log_dir: str | None = None  # known once a fit is on
        self._writer: Any = None
        self._purge_step: int | None = None

    @property
    def experiment(self) -> Any:
        """torch's SummaryWriter, for pictures and texts of your own; on global rank 0 while a fit is on."""
        if self._writer is None:
            _check_installed()
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(self.log_dir, purge_step=self._purge_step)
        return self._writer

    def start(self, log_dir: Path | None) -> None:
        self.log_dir = str(versioned(self.save_dir, self.name, self.version, log_dir))
        self._purge_step = None

    def log_hyperparams(self, params: dict[str, Any]) -> None:
        self.experiment.add_text("hparams", "\n".join(f"- {name}: {value}" for name, value in params.items()), 0)

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        writer = self.experiment
        for name, value in metrics.items():
            writer.add_scalar(name, value, step)

    def finalize(self, status: str) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def state_dict(self) -> dict[str, Any]:
        return {"log_dir": self.log_dir}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on in the interrupted fit's folder; TensorBoard hides what lies after the checkpoint's step."""
        self.finalize("")
        self.log_dir, self._purge_step = state["log_dir"], state["step"] + 1

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_writer": None}


def _check_installed() -> None:
    if importlib.util.find_spec("tensorboard") is None:
        raise UsageError("TensorBoardLogger needs a package that is not installed. Next: `pip install tensorboard`.")
