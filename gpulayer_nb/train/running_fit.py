"""What a module and its callbacks see of the fit that is on, as `self.trainer` or `trainer`.

Lives in a rank for the time of one fit. Owns the fit's present state; the loop changes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.topology import RankPlace
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.train.gathering import joined, on_host
from gpulayer_nb.train.group import Group
from gpulayer_nb.train.metric_log import MetricLog
from gpulayer_nb.train.position import FitPosition

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpulayer_nb.train.callback import Callback
    from gpulayer_nb.train.optimizers import Optimization


class RunningFit:
    """One fit (or validation, test, prediction) on this rank."""

    def __init__(
        self,
        options: FitOptions,
        place: RankPlace,
        world_size: int,
        devices_per_node: int,
        device: torch.device,
        position: FitPosition,
        callbacks: Sequence[Callback],
        checkpoint_dir: Path | None,
        *,
        group: Group | None = None,
        loggers: Sequence[Any] = (),
    ) -> None:
        self.options = options
        self.place = place
        self.world_size = world_size
        self.devices_per_node = devices_per_node
        self.device = device
        self.position = position
        self.callbacks = tuple(callbacks)
        self.checkpoint_dir = checkpoint_dir
        self.loggers = tuple(loggers)
        self._group = group
        self._in_uneven_batches = False  # ranks may have different numbers of them, so they must not meet in one
        self.metric_log = MetricLog()
        self.should_stop = False  # set it, on any rank, to end after the next agreed step
        self.callback_metrics: dict[str, float] = {}  # last epoch means over all ranks, and last step means
        self.epoch_metrics: dict[str, float] = {}  # this epoch's means over all ranks, as far as they are known
        self.awaits_validation = False  # there is a validation loader, and it has not been used yet
        self.optimization: Optimization | None = None
        self.epochs_done = 0
        self.batches_done = 0  # of the epoch that is on
        self.epoch_samples = 0  # samples this rank has trained on in the epoch that is on
        self.random_states: list[Any] | None = None  # every rank's, in the middle of a resumed epoch
        self.num_training_batches: int | None = None
        self.estimated_stepping_batches: int | None = None  # optimizer steps of the whole fit, None if unknown
        self.datamodule: Any = None
        self.checkpoint_paths: list[str] = []
        self.write_checkpoint: Callable[[Path, bool], None] | None = None  # set by the loop
        self.sanity_checking = False  # never: Lightning's word, asked by modules and callbacks written for it
        self.progress_bar_callback = None  # the same

    @property
    def current_epoch(self) -> int:
        return self.position.epoch

    @property
    def global_step(self) -> int:
        return self.position.global_step

    @property
    def global_rank(self) -> int:
        return self.place.rank

    @property
    def local_rank(self) -> int:
        return self.place.local_rank

    @property
    def node_rank(self) -> int:
        return self.place.node_rank

    @property
    def num_nodes(self) -> int:
        return -(-self.world_size // self.devices_per_node)

    @property
    def num_devices(self) -> int:
        return self.devices_per_node

    @property
    def training(self) -> bool:
        return self.position.phase == "train"

    @property
    def validating(self) -> bool:
        return self.position.phase == "val"

    @property
    def testing(self) -> bool:
        return self.position.phase == "test"

    @property
    def predicting(self) -> bool:
        return self.position.phase == "predict"

    @property
    def logger(self) -> Any:
        """The first logger, None if there is none."""
        return self.loggers[0] if self.loggers else None

    @property
    def is_global_zero(self) -> bool:
        return self.place.rank == 0

    @property
    def max_epochs(self) -> int | None:
        return self.options.max_epochs

    @property
    def max_steps(self) -> int | None:
        return self.options.max_steps

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        return [] if self.optimization is None else list(self.optimization.optimizers)

    def log(
        self,
        name: str,
        value: Any,
        *,
        on_step: bool | None = None,
        on_epoch: bool | None = None,
        prog_bar: bool = False,
        batch_size: int | None = None,
    ) -> None:
        """What a callback wants to record; as `Module.log`."""
        self.metric_log.add(name, value, batch_size, on_step, on_epoch, prog_bar)

    @property
    def lr_schedulers(self) -> list[Any]:
        return [] if self.optimization is None else [rule.scheduler for rule in self.optimization.rules]

    def gather_stacked(self, data: Any, group: Any = None, sync_grads: bool = False) -> Any:
        """`LightningModule.all_gather`: every rank's tensor, of the same shape on all, stacked along a new first dimension."""
        data = data if isinstance(data, torch.Tensor) else torch.tensor(data)
        return data if self.world_size == 1 else self.gather(data[None])

    def gather(self, value: Any) -> Any:
        """What every rank has, on every rank: for metrics that are no means, such as F1 or AUC.

        Tensors are concatenated along their first dimension in rank order (numbers become it), also where ranks have different
        numbers of rows; lists are joined; dicts and tuples are gathered part by part; of anything else there is one per rank. All
        ranks have to call it equally often: at the end of a validation, in `on_validation_epoch_end`, not in its steps.

        Raises:
            UsageError: called in a step of a pass where ranks may have different numbers of batches.
        """
        if self._group is None or self._group.world_size == 1:
            return joined([value], self.device)
        if self._in_uneven_batches:
            raise UsageError(
                "gather was called in a step of a validation, test or prediction, where one rank may have more batches than "
                "another and would wait for ever. Next: keep the values in a list, and gather them in on_validation_epoch_end."
            )
        return joined(self._group.gather(on_host(value)), self.device)

    @contextmanager
    def uneven_batches(self) -> Iterator[None]:
        """Around batches of which ranks may have different numbers."""
        self._in_uneven_batches = True
        try:
            yield
        finally:
            self._in_uneven_batches = False

    def save_checkpoint(self, path: str | Path, *, on_all_ranks: bool = False) -> None:
        """Write the whole state of the fit to `path`. May be called on all ranks; global rank 0 writes.

        Args:
            on_all_ranks: all ranks are sure to call it now: within an epoch their random numbers are then saved too.
        """
        if self.write_checkpoint is None or not (self.is_global_zero or on_all_ranks):
            return
        self.write_checkpoint(Path(path), on_all_ranks)
        if self.is_global_zero and str(path) not in self.checkpoint_paths:
            self.checkpoint_paths.append(str(path))

    def remove_checkpoint(self, path: str | Path) -> None:
        """Delete a checkpoint of this fit; global rank 0 does it."""
        if self.is_global_zero:
            Path(path).unlink(missing_ok=True)
            if str(path) in self.checkpoint_paths:
                self.checkpoint_paths.remove(str(path))
