"""A launch as asked for, checked. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpulayer_nb.plan.topology import Topology


@dataclass(frozen=True)
class LaunchRequest:
    """`script` and `folder` (where it runs) are absolute paths on this machine."""

    script: Path
    topology: Topology
    arguments: tuple[str, ...]
    env: Mapping[str, str]
    accelerator: str
    target: str
    folder: Path
