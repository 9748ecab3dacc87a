"""The workers at hand: what each has, as told by its supervisor. Plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Worker:
    """One machine that has joined a cluster.

    `engines` are ipyparallel uuids in slot order; `cuda_devices` counts the GPUs torch sees there.
    """

    name: str
    address: str
    torch_version: str
    python_version: str  # "3.11"
    backends: tuple[str, ...]  # of "gloo", "nccl"
    engines: tuple[str, ...]
    cuda_devices: int = 0
    mps: bool = False
    embedded: bool = False  # this machine, its nodes are simulated
