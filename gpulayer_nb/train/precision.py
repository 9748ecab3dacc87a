"""Mixed precision: what a forward runs under, and how a 16-bit loss is scaled.

Runs in a rank. Must not know models or ranks.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

_DTYPES = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


class Precision:
    """One of "32", "bf16-mixed", "16-mixed"."""

    def __init__(self, name: str, device: torch.device) -> None:
        self._dtype = _DTYPES.get(name)
        self._device_type = device.type
        self.scaler = torch.amp.GradScaler(device.type) if name == "16-mixed" else None

    @property
    def mixed(self) -> bool:
        return self._dtype is not None

    def forward(self) -> AbstractContextManager[object]:
        """The context of a forward. Backward runs outside of it."""
        if self._dtype is None:
            return nullcontext()
        return torch.autocast(self._device_type, dtype=self._dtype)
