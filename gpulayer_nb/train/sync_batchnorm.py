"""Batch norm over all ranks for the time of a fit. Runs in a rank; the model has its own layers again afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from gpulayer_nb.errors import UsageError


@contextmanager
def synced_batchnorm(model: nn.Module, device: torch.device, *, wanted: bool) -> Iterator[None]:
    """Stand-ins that share parameters and buffers with the model's batch norm layers take their places meanwhile.

    Raises:
        UsageError: the device is no GPU.
    """
    if not wanted:
        yield
        return
    if device.type != "cuda":
        raise UsageError(
            f"sync_batchnorm needs GPUs: torch has no synchronised batch norm on {device.type}. Leave it out; a larger batch per "
            "rank has a like effect."
        )
    own: list[tuple[nn.Module, str, nn.Module]] = []
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if isinstance(layer, _BatchNorm) and not isinstance(layer, nn.SyncBatchNorm):
                stand_in = nn.SyncBatchNorm.convert_sync_batchnorm(layer)  # type: ignore[no-untyped-call]  # torch leaves it untyped
                own.append((parent, name, layer))
                setattr(parent, name, stand_in)
    try:
        yield
    finally:
        for parent, name, layer in own:
            stand_in = getattr(parent, name)
            layer.training = stand_in.training
            layer.load_state_dict(stand_in.state_dict())  # a buffer may have been replaced, not changed in place
            setattr(parent, name, layer)
