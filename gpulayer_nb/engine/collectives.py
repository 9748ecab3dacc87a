"""Remembers which collective this rank is in, or was in last.

Runs in each rank's process. Owns thin wrappers around torch.distributed's functions; they change nothing but what is remembered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

_NAMES = (
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather", "scatter", "reduce_scatter",
    "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "barrier", "send", "recv",
    "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list",
)  # fmt: skip


class CollectiveLog:
    """Read from the control thread while the main thread works.

    Args:
        before: called before each collective; may raise in its place.
    """

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self._before = before
        self.inside: str | None = None
        self.entered = 0  # collectives of this run, the present one included

    def start_run(self) -> None:
        self.inside, self.entered = None, 0

    def watch(self) -> None:
        """From now on the functions of torch.distributed report here. One that calls another counts once."""
        for name in _NAMES:
            wrapped = self._wrapped(name, getattr(dist, name))
            for module in (dist, distributed_c10d):
                setattr(module, name, wrapped)

    def _wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def remembered(*args: Any, **kwargs: Any) -> Any:
            if self.inside is not None:
                return function(*args, **kwargs)
            self._before()
            self.inside = name
            self.entered += 1
            try:
                return function(*args, **kwargs)
            finally:
                self.inside = None

        return remembered
