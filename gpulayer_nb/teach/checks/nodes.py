"""Exercises of notebook 06: several nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpulayer_nb.teach.checks.verdict import NOTHING_YET, Mistake, Verdict, first_wrong


def check_slurm_numbers(nodes: Any, ntasks_per_node: Any, nproc_per_node: Any) -> Verdict:
    """The three numbers of a Slurm script that runs torchrun on 2 nodes with 4 GPUs each."""
    given = (nodes, ntasks_per_node, nproc_per_node)
    if any(number is ... for number in given):
        return Verdict(False, NOTHING_YET)
    if given == (2, 1, 4):
        return Verdict(True, "Slurm starts one task on each of 2 nodes; each is a torchrun that starts 4 processes: 8 ranks.")
    why = {
        (2, 4, 4): "That is 4 torchruns a node: 8 agents and 32 processes for 8 GPUs.",
        (8, 1, 1): "That asks for 8 machines with one process each; the 8 GPUs sit in 2.",
        (2, 4, 1): "The number of processes is right, but each is a torchrun of its own that takes itself for a node. "
        "This is the other way: 4 tasks a node, and no torchrun.",
        (1, 1, 8): "One machine has 4 GPUs; 8 processes would share them.",
        (1, 2, 4): "Both tasks would run on the same machine.",
    }
    tasks = nodes * ntasks_per_node
    processes = tasks * nproc_per_node
    told = f"{nodes} nodes × {ntasks_per_node} tasks = {tasks} torchruns, and {tasks} × {nproc_per_node} = {processes} processes."
    reason = why.get(given, "Wanted are 2 torchruns, one a machine, with 4 processes each.")
    return Verdict(False, f"{told} {reason}")


RANK_5 = {"RANK": 5, "LOCAL_RANK": 1, "GROUP_RANK": 1, "WORLD_SIZE": 8, "LOCAL_WORLD_SIZE": 4, "MASTER_ADDR": "node0"}


def check_environment(variables: Mapping[str, object]) -> Verdict:
    """torchrun's variables of rank 5 of 2 nodes (node0, node1) × 4 devices."""
    if any(value is ... for value in variables.values()):
        return Verdict(False, NOTHING_YET)
    why = {
        ("LOCAL_RANK", 5): "Node 1 has only four devices, 0 to 3: the local rank chooses among them.",
        ("WORLD_SIZE", 2): "That is the number of nodes; the world counts processes.",
        ("WORLD_SIZE", 4): "That is one node's; the world counts the processes of all nodes.",
        ("GROUP_RANK", 5): "The group rank is the node's number.",
        ("MASTER_ADDR", "node1"): "That is rank 5's own machine. All ranks use the same address: where rank 0 lives.",
        ("LOCAL_WORLD_SIZE", 8): "That is the whole world; local means: on this node.",
    }
    for name, expected in RANK_5.items():
        if name not in variables:
            return Verdict(False, f"{name} is missing.")
        given = variables[name]
        if str(given) != str(expected):
            reason = next((text for (n, wrong), text in why.items() if n == name and str(wrong) == str(given)), "")
            return Verdict(False, f"{name}: expected {expected}, got {given}. {reason}".rstrip())
    return Verdict(True, "Six variables, and rank 5 knows who and where it is.")


def check_uneven_rank(student: Callable[[Sequence[int], int, int], int]) -> Verdict:
    """`student(devices_per_node, node_rank, local_rank)` gives the rank where nodes differ in size."""
    cases = [(d, n, local) for d in ((2, 2), (3, 1), (1, 3), (4, 2, 1)) for n in range(len(d)) for local in range(d[n])]
    return first_wrong(
        student, cases, lambda d, n, local: sum(d[:n]) + local,
        [
            Mistake(
                lambda d, n, local: n * d[n] + local,
                "node_rank × devices only holds where all nodes have the same number. Add up the ranks of the nodes before.",
            ),
            Mistake(lambda d, n, local: n * max(d) + local, "With the largest number of devices some ranks do not exist."),
            Mistake(lambda d, n, local: local, "That is the local rank: it starts again at 0 on every node."),
        ],
        lambda d, n, local: f"nodes with {list(d)} devices, node_rank {n}, local_rank {local}", f"{len(cases)} ranks.",
    )  # fmt: skip
