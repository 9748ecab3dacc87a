"""Exercises of notebook 01: ranks and world size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpulayer_nb.teach.checks.verdict import NOTHING_YET, Mistake, Verdict, first_wrong

SHAPES = ((2, 2), (2, 4), (3, 2), (1, 4), (4, 1))  # the formulas that only work on squares pass the first


def check_rank_formula(student: Callable[[int, int, int, int], int]) -> Verdict:
    """`student(node_rank, local_rank, nodes, devices)` gives the rank."""
    cases = [(n, local, nodes, devices) for nodes, devices in SHAPES for n in range(nodes) for local in range(devices)]
    return first_wrong(
        student, cases, lambda n, local, nodes, devices: n * devices + local,
        [
            Mistake(
                lambda n, local, nodes, devices: local,
                "That is the local rank: it starts again at 0 on every node, so ranks would share an id.",
            ),
            Mistake(lambda n, local, nodes, devices: n + local, "Adding the two ids gives the same number to several ranks."),
            Mistake(
                lambda n, local, nodes, devices: n * nodes + local,
                "You multiplied by the number of nodes, which only works where nodes = devices. Each node holds `devices` ranks.",
            ),
            Mistake(
                lambda n, local, nodes, devices: local * nodes + n,
                "You numbered across the nodes; ranks are numbered node by node.",
            ),
            Mistake(lambda n, local, nodes, devices: n * devices + local + 1, "Ranks start at 0."),
        ],
        lambda n, local, nodes, devices: f"{nodes} nodes × {devices} devices, node_rank {n}, local_rank {local}",
        f"{len(cases)} ranks in {len(SHAPES)} shapes.",
    )  # fmt: skip


def check_where_am_i(student: Callable[[int, int, int], tuple[int, int]]) -> Verdict:
    """`student(rank, nodes, devices)` gives (node_rank, local_rank)."""
    cases = [(rank, nodes, devices) for nodes, devices in SHAPES for rank in range(nodes * devices)]
    return first_wrong(
        student, cases, lambda rank, nodes, devices: divmod(rank, devices),
        [
            Mistake(
                lambda rank, nodes, devices: divmod(rank, devices)[::-1],
                "The two are swapped: first the node, then the place on it.",
            ),
            Mistake(
                lambda rank, nodes, devices: divmod(rank, nodes),
                "You divided by the number of nodes; each node holds `devices` ranks.",
            ),
        ],
        lambda rank, nodes, devices: f"{nodes} nodes × {devices} devices, rank {rank}", f"{len(cases)} ranks.",
    )  # fmt: skip


def check_writer(student: Callable[[int, int], Any], nodes: int = 2, devices: int = 2) -> Verdict:
    """`student(rank, local_rank)` says whether that rank may write the job's file; exactly one may."""
    answers = [student(rank, rank % devices) for rank in range(nodes * devices)]
    if all(answer is ... for answer in answers):
        return Verdict(False, NOTHING_YET)
    writers = [rank for rank, answer in enumerate(answers) if answer]
    if writers == [0]:
        return Verdict(True, "Exactly one writer, rank 0.")
    if not writers:
        return Verdict(False, "Nobody would write the file.")
    if writers == [rank for rank in range(nodes * devices) if rank % devices == 0]:
        return Verdict(False, f"Ranks {writers} would all write the same file: local_rank 0 exists once per node.")
    if len(writers) == 1:
        return Verdict(False, f"Rank {writers[0]} would write. One writer is enough, but take rank 0: it exists in every job.")
    return Verdict(False, f"{len(writers)} ranks would write the same file: {writers}.")
