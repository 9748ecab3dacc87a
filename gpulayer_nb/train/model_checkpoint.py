"""Decides when a checkpoint is written and which ones are kept. Runs on every rank; global rank 0 writes and deletes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.callback import Callback
from gpulayer_nb.train.early_stopping import check_mode, is_better, monitored

if TYPE_CHECKING:
    from gpulayer_nb.train.running_fit import RunningFit


class ModelCheckpoint(Callback):
    """Writes `last.pt` after epochs, and keeps the best ones of a metric.

    Args:
        dirpath: the folder; by default the run's own `checkpoints` folder.
        filename: of kept ones; `{epoch}`, `{step}` and names of metrics are filled in, for example `{epoch}-{val_loss:.3f}`.
        monitor: the metric that says which are best; None keeps the newest.
        save_top_k: how many to keep; 0 keeps none but `last.pt`, -1 keeps all.
        save_last: write `last.pt`.
        every_n_train_steps: also write within an epoch, after so many optimizer steps.
    """

    def __init__(
        self,
        dirpath: str | Path | None = None,
        *,
        filename: str = "epoch={epoch}-step={step}",
        monitor: str | None = None,
        mode: str = "min",
        save_top_k: int | None = None,
        save_last: bool = True,
        every_n_epochs: int = 1,
        every_n_train_steps: int | None = None,
    ) -> None:
        check_mode(mode)
        if every_n_epochs < 1 or (every_n_train_steps is not None and every_n_train_steps < 1):
            raise UsageError("every_n_epochs and every_n_train_steps are whole numbers of at least 1.")
        self.dirpath = None if dirpath is None else Path(dirpath)
        self.filename, self.monitor, self.mode = filename, monitor, mode
        self.save_top_k = (0 if monitor is None else 1) if save_top_k is None else save_top_k
        self.save_last, self.every_n_epochs, self.every_n_train_steps = save_last, every_n_epochs, every_n_train_steps
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.best_model_path = ""
        self.best_model_score: float | None = None
        self.last_model_path = ""
        self.kept: dict[str, float] = {}  # path → score, for those that count for save_top_k
        self._saved_step = -1

    def setup(self, trainer: RunningFit, module: Any, stage: str) -> None:
        if stage == "fit":  # a resumed one takes its own back in load_state_dict
            self._begin_anew()

    def on_fit_start(self, trainer: RunningFit, module: Any) -> None:
        if self.dirpath is None and trainer.checkpoint_dir is None:
            raise UsageError(
                "ModelCheckpoint does not know where to write: give it a dirpath, or give the fit a checkpoint folder."
            )
        self._saved_step = trainer.global_step

    def on_train_batch_end(self, trainer: RunningFit, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = trainer.global_step
        if self.every_n_train_steps and step % self.every_n_train_steps == 0 and step != self._saved_step:
            self._save_last(trainer)

    def on_train_epoch_end(self, trainer: RunningFit, module: Any) -> None:
        if trainer.epochs_done % self.every_n_epochs:
            return
        self._keep_best(trainer)
        self._save_last(trainer)

    def on_train_end(self, trainer: RunningFit, module: Any) -> None:
        if trainer.global_step != self._saved_step:
            self._save_last(trainer)

    def _save_last(self, trainer: RunningFit) -> None:
        self._saved_step = trainer.global_step
        if self.save_last:
            path = self._folder(trainer) / "last.pt"
            trainer.save_checkpoint(path, on_all_ranks=True)
            self.last_model_path = str(path)

    def _keep_best(self, trainer: RunningFit) -> None:
        if self.save_top_k == 0:
            return
        score = float(trainer.global_step) if self.monitor is None else monitored(trainer, self.monitor, "ModelCheckpoint")
        mode = "max" if self.monitor is None else self.mode
        if score is None:
            return
        worst = self._worst(mode) if 0 < self.save_top_k <= len(self.kept) else None
        if worst is not None and not is_better(score, self.kept[worst], mode):
            return
        path = str(self._folder(trainer) / f"{self._name(trainer)}.pt")
        self.kept[path] = score
        if is_better(score, self.best_model_score, mode):
            self.best_model_path, self.best_model_score = path, score
        trainer.save_checkpoint(path, on_all_ranks=True)
        if worst is not None and worst != path:
            del self.kept[worst]
            trainer.remove_checkpoint(worst)

    def _worst(self, mode: str) -> str:
        pick = max if mode == "min" else min
        return pick(self.kept, key=lambda path: self.kept[path])

    def _folder(self, trainer: RunningFit) -> Path:
        folder = self.dirpath or trainer.checkpoint_dir
        assert folder is not None  # for mypy: on_fit_start has refused it
        return folder

    def _name(self, trainer: RunningFit) -> str:
        try:
            known = {**trainer.callback_metrics, "epoch": trainer.current_epoch, "step": trainer.global_step}
            return self.filename.format(**known)
        except (KeyError, IndexError, ValueError) as error:
            raise UsageError(
                f"ModelCheckpoint cannot fill in its filename {self.filename!r} ({error}). Known: epoch, step, "
                f"{', '.join(sorted(trainer.callback_metrics)) or 'no metric yet'}."
            ) from error

    def state_dict(self) -> dict[str, Any]:
        return {"best_model_path": self.best_model_path, "best_model_score": self.best_model_score, "kept": dict(self.kept)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best_model_path, self.best_model_score = state["best_model_path"], state["best_model_score"]
        self.kept = dict(state["kept"])
