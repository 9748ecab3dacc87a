"""A data set that says itself how it is fetched, prepared and loaded: the user subclasses `DataModule`.

Runs anywhere. The fit calls it; it must not know ranks.
"""

from __future__ import annotations

from typing import Any

from gpulayer_nb.errors import UsageError


class DataModule:
    """`prepare_data` runs once per worker, then `setup` on every rank, then the loaders are asked for."""

    trainer: Any = None  # the fit that is on, None before and after

    def prepare_data(self) -> None:
        """Download or convert files. Keep no state here: only one rank of each worker runs it."""

    def setup(self, stage: str) -> None:
        """Make the data sets. `stage` is "fit", "validate", "test" or "predict"."""

    def train_dataloader(self) -> Any:
        raise UsageError(f"{type(self).__name__} has no train_dataloader(). Define it and return a DataLoader.")

    def val_dataloader(self) -> Any:
        """Return a DataLoader, or None for no validation."""
        return None

    def test_dataloader(self) -> Any:
        raise UsageError(f"{type(self).__name__} has no test_dataloader(). Define it and return a DataLoader.")

    def predict_dataloader(self) -> Any:
        raise UsageError(f"{type(self).__name__} has no predict_dataloader(). Define it and return a DataLoader.")

    def teardown(self, stage: str) -> None:
        """Free what `setup` made. Runs on every rank at the end, also after an error."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "trainer"}
