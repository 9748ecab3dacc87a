"""The few exchanges between ranks that a fit needs, equal for one process without a group.

Runs in a rank whose process group is up (or alone). Owns where the exchanged numbers live: main memory for gloo, the
device for nccl. Must not know what the numbers mean, and never makes or destroys a group.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from gpulayer_nb.errors import UsageError

T = TypeVar("T")

Sum = Callable[[], list[float]]


class Group:
    """All ranks of the fit.

    Raises:
        UsageError: several ranks are asked for, and this process is in no group of that size.
    """

    def __init__(self, rank: int, world_size: int, device: torch.device) -> None:
        self.rank = rank
        self.world_size = world_size
        self._tensor_device = torch.device("cpu")
        if world_size == 1:
            return
        if not (dist.is_available() and dist.is_initialized()):
            raise UsageError(
                f"The fit is for {world_size} ranks, but this process is in no process group. "
                "Call torch.distributed.init_process_group first, or fit with world_size=1."
            )
        if dist.get_world_size() != world_size or dist.get_rank() != rank:
            raise UsageError(
                f"The fit is for rank {rank} of {world_size}, but the process group says rank {dist.get_rank()} "
                f"of {dist.get_world_size()}. Use the group's own numbers."
            )
        if dist.get_backend() == "nccl":
            self._tensor_device = device

    def sum(self, numbers: list[float]) -> list[float]:
        """Element-wise sum over the ranks, in float64; every rank gives as many numbers."""
        return self.begin_sum(numbers)()

    def begin_sum(self, numbers: list[float]) -> Sum:
        """Like `sum`, but goes on while this rank does something else; calling what comes back waits for the sum."""
        if self.world_size == 1:
            return lambda: numbers
        packed = torch.tensor(numbers, dtype=torch.float64, device=self._tensor_device)
        work = dist.all_reduce(packed, async_op=True)

        def wait() -> list[float]:
            work.wait()
            summed: list[float] = packed.tolist()
            return summed

        return wait

    def gather(self, value: T) -> list[T]:
        """Every rank's value, in rank order, on every rank."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def gather_on_rank_zero(self, value: T) -> list[T]:
        """Every rank's value, in rank order, on rank 0; an empty list elsewhere."""
        if self.world_size == 1:
            return [value]
        values: list[Any] | None = [None] * self.world_size if self.rank == 0 else None
        dist.gather_object(value, values, dst=0)
        return values or []

    def from_rank_zero(self, value: T) -> T:
        """Rank 0's value on every rank; what the others give is ignored."""
        if self.world_size == 1:
            return value
        box = [value if self.rank == 0 else None]
        dist.broadcast_object_list(box, src=0, device=self._tensor_device)
        return box[0]  # type: ignore[return-value]  # broadcast fills it in on every rank

    def bytes_from_rank_zero(self, data: bytes | None) -> io.BytesIO:
        """A file's content read by rank 0, on every rank, without pickling it."""
        if self.world_size == 1:
            return io.BytesIO(data or b"")
        size = self.from_rank_zero(len(data or b""))
        if self.rank == 0:
            buffer = torch.frombuffer(bytearray(data or b""), dtype=torch.uint8).to(self._tensor_device)
        else:
            buffer = torch.empty(size, dtype=torch.uint8, device=self._tensor_device)
        dist.broadcast(buffer, src=0)
        return io.BytesIO(buffer.cpu().numpy().tobytes())

    def copy_from_rank_zero(self, tensors: list[Tensor]) -> None:
        """Overwrite each tensor by rank 0's, in place. Every rank gives the same shapes in the same order."""
        if self.world_size == 1 or not tensors:
            return
        for tensor in tensors:
            sent = tensor.detach().to(self._tensor_device).contiguous()
            dist.broadcast(sent, src=0)
            if self.rank != 0:
                tensor.detach().copy_(sent)
