"""What the loop must know about a batch: how many samples it has, and how to bring it to a device.

Runs in a rank, once per step. Must not know models or metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def sample_count(batch: Any) -> int:
    """Samples in a batch: the first dimension of the first tensor in it; else its length; else 1."""
    part = batch
    while not isinstance(part, Tensor):
        if isinstance(part, Mapping):
            part = _first(part.values())
        elif isinstance(part, (list, tuple)):
            part = _first(part)
        else:
            return _length(batch)
    return int(part.shape[0]) if part.dim() else 1


def _first(parts: Any) -> Any:
    """The first part that is or holds a tensor, if there is one; else the first."""
    first = None
    for part in parts:
        if isinstance(part, (Tensor, Mapping, list, tuple)):
            return part
        if first is None:
            first = part
    return first


def _length(batch: Any) -> int:
    if isinstance(batch, (list, tuple)):
        return max(1, len(batch))
    return 1


def to_device(batch: Any, device: torch.device) -> Any:
    """The batch with every tensor in it on `device`; containers keep their type."""
    if isinstance(batch, Tensor):
        return batch if batch.device == device else batch.to(device, non_blocking=True)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):  # a named tuple
        return type(batch)(*(to_device(part, device) for part in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(to_device(part, device) for part in batch)
    if isinstance(batch, dict):
        return type(batch)({name: to_device(part, device) for name, part in batch.items()})
    if callable(mover := getattr(batch, "to", None)) and not isinstance(batch, torch.nn.Module):
        return mover(device)
    return batch
