"""What a session needs of a cluster, whichever it is: ranks of a shape, the way to them, word of those that end.

Runs in the kernel. Two kinds fulfil it: `EmbeddedCluster`, which belongs to this process, and `RemoteCluster`, whose workers
belong to whoever started them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpulayer_nb.link.connection import Connection
from gpulayer_nb.plan.assignment import RankAssignment
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.plan.workers import Worker
from gpulayer_nb.records.worker_state import EngineDeath

Say = Callable[[str], None]


@dataclass(frozen=True)
class Ranks:
    """Engines in rank order, what they compute on, and whether their machine has an MPS device."""

    assignments: tuple[RankAssignment, ...]
    accelerator: str
    has_mps: bool = False


@dataclass(frozen=True)
class Delivery:
    """What one worker was given for a run, as paths on that worker.

    Attributes:
        blobs: folder of the files that were sent.
        returns: folder where results may leave big buffers that the kernel maps; "" if it cannot.
        run_folder: the run's folder if the worker sees it; "" if it has to make one of its own.
    """

    blobs: str
    returns: str
    run_folder: str


class EngineWatch(Protocol):
    """What is known of engines while a run is on, by uuid."""

    def is_gone(self, engine: str) -> bool:
        """Whether it is known to have ended, or to be out of reach."""

    def is_cut_off(self, engine: str) -> bool:
        """Whether its worker has not been heard for a while: an order to end it will hardly arrive."""

    def death_of(self, engine: str) -> EngineDeath | None:
        """How it ended, if its supervisor knows and can say."""

    def why_lost(self, engine: str) -> str | None:
        """What is known about a loss that no supervisor explains: one clause with the worker's name."""

    def kill(self, engines: Sequence[str]) -> None:
        """Ends engines that do not answer; the next start replaces them."""


class HandedOver(Protocol):
    """Ranks on their way to another process, which drives a run on them; it can be pickled."""

    @property
    def client_file(self) -> Path: ...

    @property
    def inherits(self) -> tuple[int, ...]:
        """File descriptors that the process has to inherit."""

    def take(self, connection: Connection) -> EngineWatch:
        """In the other process: the ranks run for it from now on."""

    def leave(self) -> None:
        """The run is over: the ranks end."""


class Cluster(Protocol):
    target: str
    is_elsewhere: bool  # engines may be on other machines

    @property
    def topology(self) -> Topology | None:
        """The shape of the engines that are up; None if none are."""

    @property
    def connection(self) -> Connection: ...

    @property
    def client_file(self) -> Path: ...

    @property
    def blobs(self) -> Path:
        """This process's folder for what is sent in files."""

    def ensure(self, topology: Topology, accelerator: str, say: Say) -> bool:
        """Engines of this shape are up when this returns. True if any of them is a new process."""

    def ranks(self, accelerator: str) -> Ranks:
        """Who is who among them."""

    def workers(self) -> list[Worker]: ...

    def watch(self) -> EngineWatch: ...

    def deliver(self, files: Sequence[Path], run_folder: Path) -> Mapping[str, Delivery]:
        """Gives every worker of the present ranks these files of `blobs`; by the worker's key."""

    def hand_over(self) -> HandedOver:
        """What another process needs to have these ranks."""

    def let_go(self) -> None:
        """Another process has them now: they are no longer this one's to end."""

    def end(self) -> None:
        """Leaves the cluster; what this process started there ends."""
