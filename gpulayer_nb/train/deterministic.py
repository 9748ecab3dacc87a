"""Torch's deterministic algorithms for the time of a fit. Runs in a rank; puts the switch back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Operations without a deterministic form raise torch's own error, which names them."""
    if not wanted:
        yield
        return
    algorithms = torch.are_deterministic_algorithms_enabled()
    cudnn = torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(algorithms)
        torch.backends.cudnn.benchmark = cudnn
