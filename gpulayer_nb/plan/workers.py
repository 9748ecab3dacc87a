"""The workers at hand: what each has, as told by its supervisor. Plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, kw_only=True)
class Worker:
    """One machine that has joined a cluster.

    Attributes:
        key: what its engines carry; unique in its cluster.
        name: as shown; two workers of one cluster never have the same.
        host: the machine's own name, which two machines may share.
        devices: engines it offers at most; None: as many as are asked for.
        taken: of those, who has which slot at present: other clients, in words.
        engines: ipyparallel uuids of the engines that are up, by slot.
        cuda_devices: GPUs torch sees there.
        accelerator: what its owner lends: "auto" is all it has.
        is_ready: false while it imports torch.
        embedded: this machine; its nodes are simulated.
    """

    key: str
    name: str
    address: str
    torch_version: str
    python_version: str  # "3.11"
    backends: tuple[str, ...]  # of "gloo", "nccl"
    host: str = ""
    interface: str | None = None
    devices: int | None = None
    taken: Mapping[int, str] = field(default_factory=dict)
    engines: Mapping[int, str] = field(default_factory=dict)
    cuda_devices: int = 0
    mps: bool = False
    accelerator: str = "auto"
    is_ready: bool = True
    embedded: bool = False

    @property
    def versions(self) -> tuple[str, str]:
        """What must be the same on every worker of a run: torch without its build tag, and Python."""
        return self.torch_version.partition("+")[0], self.python_version

    def offered(self, accelerator: str) -> int:
        """Ranks it can hold at most with this accelerator."""
        devices = self.devices or 0
        if self.accelerator not in ("auto", accelerator):
            return 0
        if accelerator == "cuda":
            return min(devices, self.cuda_devices)
        if accelerator == "mps":
            return min(devices, int(self.mps))
        return devices

    def free_slots(self, accelerator: str) -> list[int]:
        return [slot for slot in range(self.offered(accelerator)) if slot not in self.taken]


def with_distinct_names(workers: Sequence[Worker]) -> list[Worker]:
    """The same workers; those of one name are shown with their address, and with part of their key if they share that too."""
    named = [
        replace(worker, name=f"{worker.name} ({worker.address})") if shared else worker for worker, shared in _shared(workers)
    ]
    return [replace(w, name=f"{w.name} {w.key.rpartition('~')[2]}") if shared else w for w, shared in _shared(named)]


def _shared(workers: Sequence[Worker]) -> list[tuple[Worker, bool]]:
    """Each with whether another has its name."""
    seen = Counter(worker.name for worker in workers)
    return [(worker, seen[worker.name] > 1) for worker in workers]
