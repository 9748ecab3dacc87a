"""Where the loaders of a fit come from: given ones, or a data module's, prepared in the right order.

Runs in a rank. Must not know how loaders are divided.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpulayer_nb.errors import UsageError
from gpulayer_nb.train.group import Group
from gpulayer_nb.train.rank_zero import rank_zero_first
from gpulayer_nb.train.running_fit import RunningFit


class DataSource:
    """Raises UsageError when both loaders and a data module are given, or neither."""

    def __init__(self, train_loader: Any, val_loader: Any, datamodule: Any, running: RunningFit, group: Group) -> None:
        if datamodule is None and _is_data_module(train_loader):
            train_loader, datamodule = None, train_loader
        if datamodule is None and _is_data_module(val_loader):
            val_loader, datamodule = None, val_loader
        if datamodule is not None and train_loader is not None:
            raise UsageError("both a train_loader and a datamodule are given; give one of them.")
        self._train, self._val, self._module, self._running, self._group = train_loader, val_loader, datamodule, running, group

    @contextmanager
    def ready(self, stage: str) -> Iterator[None]:
        """Prepare the data module: `prepare_data` once per worker, `setup` on every rank; `teardown` at the end."""
        module = self._module
        if module is None:
            yield
            return
        running = self._running
        module.trainer = running
        running.datamodule = module
        try:
            with rank_zero_first():
                if running.local_rank == 0:
                    module.prepare_data()
            module.setup(stage)
            yield
        finally:
            module.teardown(stage)
            module.__dict__.pop("trainer", None)
            running.datamodule = None

    def train_loader(self) -> Any:
        loader = self._train if self._module is None else self._module.train_dataloader()
        if loader is None:
            raise UsageError(
                "there is no training loader: give train_loader, or a datamodule whose train_dataloader returns one."
            )
        return loader

    @property
    def has_own_val_loader(self) -> bool:
        """Whether a validation loader was given as such, not by a data module."""
        return self._val is not None

    def val_loader(self) -> Any:
        """The validation loader, None if there is none."""
        return self._only(self._val if self._val is not None or self._module is None else self._module.val_dataloader())

    def loader_of(self, split: str) -> Any:
        """The one loader of a validation ("val"), test or prediction.

        Raises:
            UsageError: there is none.
        """
        loader = self._val
        if loader is None and self._module is not None:
            loader = getattr(self._module, f"{split}_dataloader")()
        loader = self._only(loader)
        if loader is None:
            raise UsageError(f"there is no loader: give one, or a datamodule whose {split}_dataloader returns one.")
        return loader

    def _only(self, loader: Any) -> Any:
        if not isinstance(loader, (list, tuple)) or not all(hasattr(part, "dataset") for part in loader):
            return loader
        if len(loader) > 1:
            raise UsageError(
                f"{len(loader)} validation loaders are given; one is supported. Join the data sets, or validate them one by one."
            )
        return loader[0] if loader else None


def _is_data_module(thing: Any) -> bool:
    return callable(getattr(thing, "train_dataloader", None)) and callable(getattr(thing, "setup", None))
