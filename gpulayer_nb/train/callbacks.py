"""The callbacks under one name: `from gpulayer_nb.train.callbacks import EarlyStopping`."""

from gpulayer_nb.train.callback import Callback
from gpulayer_nb.train.early_stopping import EarlyStopping
from gpulayer_nb.train.learning_rate_monitor import LearningRateMonitor
from gpulayer_nb.train.model_checkpoint import ModelCheckpoint

__all__ = ["Callback", "EarlyStopping", "LearningRateMonitor", "ModelCheckpoint"]
