"""Rank 0 as the main process: code that runs there only, or there first.

Runs in a rank or in one plain process. Waits on the group's store, not in a collective, so a long download does not meet
the group's time limit, and an interrupt gets through.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import torch.distributed as dist

from gpulayer_nb.errors import GpuLayerError

P = ParamSpec("P")
T = TypeVar("T")

POLL_SECONDS = 0.05  # longest wait between two looks at the store


def global_rank() -> int:
    """This process's rank: the group's, else the launcher's `RANK`, else 0."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    return int(os.environ.get("RANK", "0"))


def rank_zero_only(function: Callable[P, T]) -> Callable[P, T | None]:
    """Make a function run on global rank 0 only; elsewhere it returns None at once."""

    @functools.wraps(function)
    def on_rank_zero(*args: P.args, **kwargs: P.kwargs) -> T | None:
        return function(*args, **kwargs) if global_rank() == 0 else None

    return on_rank_zero


@contextmanager
def rank_zero_first() -> Iterator[None]:
    """Let local rank 0 of each worker run the block before the other ranks of that worker do.

    Every rank has to enter it as often as the others.

    Raises:
        GpuLayerError: on the waiting ranks, when the block failed on the first one.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        yield
        return
    store = dist.distributed_c10d._get_default_store()
    node, local_rank = os.environ.get("GROUP_RANK", "0"), int(os.environ.get("LOCAL_RANK", dist.get_rank()))
    prefix = f"gpulayer/first/{node}"
    turn = store.add(f"{prefix}/turns/{local_rank}", 1)  # this rank's count of visits; equal on all ranks of the worker
    done = f"{prefix}/done/{turn}"
    if local_rank == 0:
        try:
            yield
        except BaseException:
            store.set(done, "failed")
            raise
        store.set(done, "ok")
        return
    wait_seconds = 0.001
    while not store.check([done]):
        time.sleep(wait_seconds)
        wait_seconds = min(POLL_SECONDS, wait_seconds * 2)
    if store.get(done) == b"failed":
        raise GpuLayerError(f"rank {dist.get_rank()} waited for local rank 0 of its worker, which failed in the same block.")
    yield
