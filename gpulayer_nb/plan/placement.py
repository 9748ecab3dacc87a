"""Which workers a run gets, and which of their slots. Pure: facts about workers in, nodes or a refusal out.

Runs in the kernel, before anything is started. A node is never split over workers, a request never made smaller.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpulayer_nb.errors import PlanError
from gpulayer_nb.plan.accelerator import backend_for
from gpulayer_nb.plan.table import aligned
from gpulayer_nb.plan.topology import Topology, count
from gpulayer_nb.plan.workers import Worker


@dataclass(frozen=True)
class Node:
    """One node of a run: a worker and the slots of its that hold local rank 0, 1, …"""

    worker: Worker
    slots: tuple[int, ...]


@dataclass(frozen=True)
class Placement:
    """Nodes in the order of their node ranks."""

    nodes: tuple[Node, ...]
    accelerator: str


def place(topology: Topology, accelerator: str, workers: Sequence[Worker], unheard: Mapping[str, str] | None = None) -> Placement:
    """Chooses `num_nodes` workers with `devices` free slots each.

    All have the same torch and Python; among such sets, one whose workers offer the same number of devices is preferred, then
    workers on machines of their own, then those that fit most closely. Nodes are in the order of the workers' names.

    Args:
        accelerator: "auto" takes GPUs if the workers have enough of them, busy or not.
        unheard: workers that are known but cannot be asked, and why, for the refusal.

    Raises:
        PlanError: it cannot be; with a line for each worker.
    """
    if accelerator == "mps" and topology.world_size > 1:
        raise PlanError(
            f"mps runs in one process only, {count(topology.world_size, 'rank')} asked. Nothing was started. "
            "Next: `--accelerator cpu`."
        )
    chosen = _accelerator(topology, workers) if accelerator == "auto" else accelerator
    best: tuple[tuple[bool, int, int, int], list[Node]] | None = None
    for _, group in sorted(_compatible(workers).items()):
        nodes = [
            Node(worker, tuple(free[: topology.devices]))
            for worker in group
            if _lacks(worker, topology, chosen) is None and (free := worker.free_slots(chosen))
        ]
        taken = _preferred(nodes, topology.num_nodes, chosen)
        if taken is not None and (best is None or taken[0] < best[0]):
            best = taken
    if best is None:
        raise PlanError(_refusal(topology, accelerator, chosen, workers, unheard or {}))
    return Placement(tuple(sorted(best[1], key=lambda node: by_name(node.worker))), chosen)


def by_name(worker: Worker) -> tuple[list[tuple[int, int, str]], str]:
    """Sorts `node2` before `node10`."""
    parts = re.split(r"(\d+)", worker.name)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts], worker.key


def _compatible(workers: Sequence[Worker]) -> dict[tuple[str, str], list[Worker]]:
    groups = defaultdict(list)
    for worker in workers:
        if worker.is_ready:
            groups[worker.versions].append(worker)
    return groups


def _accelerator(topology: Topology, workers: Sequence[Worker]) -> str:
    """What "auto" means here: decided by what there is, so that a busy GPU never turns a run into one on the CPU."""
    for group in _compatible(workers).values():
        able = [w for w in group if w.offered("cuda") >= topology.devices and "nccl" in w.backends]
        if len(able) >= topology.num_nodes:
            return "cuda"
    return "cpu"


def _preferred(nodes: list[Node], wanted: int, accelerator: str) -> tuple[tuple[bool, int, int, int], list[Node]] | None:
    """The best `wanted` of these nodes and how good they are (less is better); None if there are too few."""
    if len(nodes) < wanted:
        return None
    alike = defaultdict(list)
    for node in nodes:
        alike[node.worker.offered(accelerator)].append(node)
    sets = [(False, size, members) for size, members in sorted(alike.items()) if len(members) >= wanted]
    if not sets:
        sets = [(True, 0, nodes)]
    graded = []
    for mixed, size, members in sets:
        hosts: dict[str, int] = {}
        order: list[tuple[int, int, Node]] = []
        for node in sorted(members, key=lambda n: (n.worker.offered(accelerator), by_name(n.worker))):
            host = node.worker.host or node.worker.key
            order.append((hosts.get(host, 0), len(order), node))
            hosts[host] = hosts.get(host, 0) + 1
        order.sort(key=lambda entry: entry[:2])
        taken = [node for _, _, node in order[:wanted]]
        shared = wanted - len({node.worker.host or node.worker.key for node in taken})
        graded.append(((mixed, shared, size, -len(members)), taken))
    return min(graded, key=lambda entry: entry[0])


def _lacks(worker: Worker, topology: Topology, accelerator: str) -> str | None:
    """Why a worker cannot be a node; None if it can."""
    if not worker.is_ready:
        return "is still loading torch"
    if worker.accelerator not in ("auto", accelerator):
        return f"lends {worker.accelerator} only"
    backend = backend_for(accelerator)
    if backend not in worker.backends:
        return f"its torch has no {backend}"
    offered = worker.offered(accelerator)
    things = {"cuda": "GPU", "mps": "MPS device"}.get(accelerator, "device")
    if offered < topology.devices:
        return f"has {count(offered, things)}"
    free = worker.free_slots(accelerator)
    if len(free) < topology.devices:
        return f"{len(free)} of {count(offered, things)} free, busy with {', '.join(sorted(set(worker.taken.values())))}"
    return None


def _refusal(topology: Topology, asked: str, accelerator: str, workers: Sequence[Worker], unheard: Mapping[str, str]) -> str:
    rows, able = [], []
    for worker in sorted(workers, key=by_name):
        lack = _lacks(worker, topology, accelerator)
        if lack is None:
            able.append(worker)
        torch, python = worker.torch_version or "?", worker.python_version or "?"
        rows.append((worker.name, worker.address, torch, python, lack or "can hold a node"))
    rows += [(name, "", "", "", why) for name, why in sorted(unheard.items())]
    versions = {worker.versions for worker in able}
    head = f"{topology} on {accelerator} asked, "
    if not rows:
        return head + (
            "but no worker has joined the cluster. Nothing was started. "
            "Next: `gpulayer worker start` on each machine; `gpulayer controller start` has shown the line to paste."
        )
    if len(able) >= topology.num_nodes and len(versions) > 1:
        said = f"but workers differ in torch or Python, and no {topology.num_nodes} of them agree"
        step = "install the same torch and Python on each, or ask for fewer nodes"
    else:
        said = f"but {count(len(able), 'worker')} of {len(rows)} can hold {count(topology.devices, 'rank')}"
        step = "start more with `gpulayer worker start`, wait for busy ones, or ask for fewer nodes or devices"
        if accelerator != "cpu" and asked == accelerator:
            step += ", or `--accelerator cpu`"
    table = aligned(("worker", "address", "torch", "python", ""), rows)
    return f"{head}{said}. Nothing was started. Next: {step}.\n{table}"
