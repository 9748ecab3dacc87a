"""Data-parallel PyTorch training in a notebook cell.

What a user may write as `glt.NAME`, looked up when it is first used: importing the package costs nothing and loads neither
torch, matplotlib nor ipyparallel. Owns the list of public names. Must not know how any of them works.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpulayer_nb.api.compare import compare as compare
    from gpulayer_nb.api.launch import launch as launch
    from gpulayer_nb.api.run import Run as Run
    from gpulayer_nb.api.runs import runs as runs
    from gpulayer_nb.api.trainer import Trainer as Trainer
    from gpulayer_nb.errors import ClusterError as ClusterError
    from gpulayer_nb.errors import GpuLayerError as GpuLayerError
    from gpulayer_nb.errors import PlanError as PlanError
    from gpulayer_nb.errors import RunFailed as RunFailed
    from gpulayer_nb.errors import RunStopped as RunStopped
    from gpulayer_nb.errors import ShippingError as ShippingError
    from gpulayer_nb.errors import UsageError as UsageError
    from gpulayer_nb.train.callback import Callback as Callback
    from gpulayer_nb.train.csv_logger import CSVLogger as CSVLogger
    from gpulayer_nb.train.data_module import DataModule as DataModule
    from gpulayer_nb.train.early_stopping import EarlyStopping as EarlyStopping
    from gpulayer_nb.train.learning_rate_monitor import LearningRateMonitor as LearningRateMonitor
    from gpulayer_nb.train.logger import Logger as Logger
    from gpulayer_nb.train.model_checkpoint import ModelCheckpoint as ModelCheckpoint
    from gpulayer_nb.train.module import Module as Module
    from gpulayer_nb.train.rank_zero import rank_zero_first as rank_zero_first
    from gpulayer_nb.train.rank_zero import rank_zero_only as rank_zero_only
    from gpulayer_nb.train.tensorboard_logger import TensorBoardLogger as TensorBoardLogger

__version__ = "0.1.0"

_HOMES = {
    "Run": "gpulayer_nb.api.run",
    "compare": "gpulayer_nb.api.compare",
    "launch": "gpulayer_nb.api.launch",
    "runs": "gpulayer_nb.api.runs",
    "Trainer": "gpulayer_nb.api.trainer",
    "Module": "gpulayer_nb.train.module",
    "DataModule": "gpulayer_nb.train.data_module",
    "Callback": "gpulayer_nb.train.callback",
    "EarlyStopping": "gpulayer_nb.train.early_stopping",
    "LearningRateMonitor": "gpulayer_nb.train.learning_rate_monitor",
    "ModelCheckpoint": "gpulayer_nb.train.model_checkpoint",
    "CSVLogger": "gpulayer_nb.train.csv_logger",
    "Logger": "gpulayer_nb.train.logger",
    "TensorBoardLogger": "gpulayer_nb.train.tensorboard_logger",
    "rank_zero_first": "gpulayer_nb.train.rank_zero",
    "rank_zero_only": "gpulayer_nb.train.rank_zero",
    "ClusterError": "gpulayer_nb.errors",
    "GpuLayerError": "gpulayer_nb.errors",
    "PlanError": "gpulayer_nb.errors",
    "RunFailed": "gpulayer_nb.errors",
    "RunStopped": "gpulayer_nb.errors",
    "ShippingError": "gpulayer_nb.errors",
    "UsageError": "gpulayer_nb.errors",
}

__all__ = ["__version__", "load_ipython_extension", *_HOMES]


def __getattr__(name: str) -> Any:
    """The public object of that name, imported now and kept."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext gpulayer_nb`."""
    import_module("gpulayer_nb.magics.extension").load(shell)  # by name, as above: the package itself imports none of its parts


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """For Jupyter: the panel's server part."""
    app = import_module("gpulayer_nb.server.app").GpuLayerExtension
    return [{"module": "gpulayer_nb.server.app", "app": app}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """For `jupyter labextension develop`: where the built panel is."""
    return [{"src": "labextension", "dest": "gpulayer-nb"}]
