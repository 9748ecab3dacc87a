"""Every check accepts the right answer, names the first wrong case of a wrong one, and knows the usual mistakes by name."""

from __future__ import annotations

import math
from typing import Any

import pytest
from torch.utils.data import DistributedSampler

from gpulayer_nb import teach
from gpulayer_nb.teach.checks.sharding import shard
from gpulayer_nb.teach.checks.verdict import NOTHING_YET, same

RIGHT: list[tuple[Any, ...]] = [
    (teach.check_rank_formula, lambda n, local, nodes, devices: n * devices + local),
    (teach.check_where_am_i, lambda rank, nodes, devices: divmod(rank, devices)),
    (teach.check_writer, lambda rank, local_rank: rank == 0),
    (teach.check_weighted_mean, [2.25] * 4),
    (teach.check_largest, [2] * 4),
    (teach.check_logging, [2.5, None, None, None]),
    (teach.check_shard, lambda n, r, w: list(DistributedSampler(range(n), w, r, shuffle=False))),
    (teach.check_steps_per_epoch, lambda n, w, b: -(-n // (w * b))),
    (teach.check_exact_accuracy, lambda flags, n: sum([f for turn in zip(*flags, strict=True) for f in turn][:n]) / n),
    (teach.check_average_gradients, [-102.0] * 4),
    (teach.check_accumulation, [(1.02, 1)] * 4),
    (teach.check_equal_on_all_ranks, [(True, False)] * 4),
    (teach.check_global_batch, lambda nodes, devices, batch, k: nodes * devices * batch * k),
    (teach.check_same_training, 32, 1.5e-8),
    (teach.check_exact_average, lambda pairs: sum(m * n for m, n in pairs) / sum(n for _, n in pairs)),
    (teach.check_slurm_numbers, 2, 1, 4),
    (
        teach.check_environment,
        {"RANK": "5", "LOCAL_RANK": 1, "GROUP_RANK": 1, "WORLD_SIZE": 8, "LOCAL_WORLD_SIZE": 4, "MASTER_ADDR": "node0"},
    ),
    (teach.check_uneven_rank, lambda d, n, local: sum(d[:n]) + local),
    (teach.check_amdahl, lambda n, s: 1 / (s + (1 - s) / n)),
    (teach.check_ring_megabytes, lambda n, mb: 2 * (n - 1) * mb / n),
    (teach.check_reading, 3, 0.75, 0.8),
    (teach.check_culprits, 2, 1, 0),
    (teach.check_skip_together, [True] * 4),
    (teach.check_all_count, [8.0] * 4),
]
FIVE = RIGHT[16][1]

WRONG: list[tuple[Any, tuple[Any, ...], str]] = [
    (teach.check_rank_formula, (lambda n, local, nodes, devices: n * nodes + local,),
     "2 nodes × 4 devices, node_rank 1, local_rank 0: expected 4, got 2. You multiplied by the"),
    (teach.check_rank_formula, (lambda n, local, nodes, devices: local,),
     "local_rank 0: expected 2, got 0. That is the local rank"),
    (teach.check_rank_formula, (lambda n, local, nodes, devices: n + local,), "expected 2, got 1. Adding the two ids"),
    (teach.check_rank_formula, (lambda n, local, nodes, devices: local * nodes + n,), "You numbered across the nodes"),
    (teach.check_rank_formula, (lambda n, local, nodes, devices: n * devices + local + 1,),
     "expected 0, got 1. Ranks start at 0."),
    (teach.check_rank_formula, (lambda n, local, nodes, devices: n * 8 + local,), "local_rank 0: expected 2, got 8."),
    (teach.check_rank_formula, (lambda n, local, nodes, devices: n * device + local,),  # noqa: F821  # a student's typo
     "your function raised NameError: name 'device' is not defined."),
    (teach.check_rank_formula, (lambda n, local, nodes, devices: None,), "got None. Does your function end with `return`?"),
    (teach.check_where_am_i, (lambda r, nodes, devices: (r % devices, r // devices),),
     "rank 1: expected (0, 1), got (1, 0). The two are swapped"),
    (teach.check_where_am_i, (lambda r, nodes, devices: divmod(r, nodes),),
     "2 nodes × 4 devices, rank 2: expected (0, 2), got (1, 0). You divided by the number of nodes"),
    (teach.check_writer, (lambda rank, local_rank: local_rank == 0,), "Ranks [0, 2] would all write the same file: local_rank 0"),
    (teach.check_writer, (lambda rank, local_rank: True,), "4 ranks would write the same file: [0, 1, 2, 3]."),
    (teach.check_writer, (lambda rank, local_rank: rank == 1,), "Rank 1 would write. One writer is enough"),
    (teach.check_writer, (lambda rank, local_rank: False,), "Nobody would write the file."),
    (teach.check_weighted_mean, ([1.75] * 4,), "mean of the four means"),
    (teach.check_weighted_mean, ([7.0] * 4,), "all_reduce adds"),
    (teach.check_weighted_mean, ([5.625] * 4,), "not by the number of samples"),
    (teach.check_weighted_mean, ([2] * 4,), "The fraction is gone"),
    (teach.check_weighted_mean, ([0.25, 1.25, 2.25, 3.25],), "nothing was sent"),
    (teach.check_weighted_mean, ([2.25, 2.25, None, 2.25],), "Rank 2: expected 2.25, got None."),
    (teach.check_largest, ([4] * 4,), "asked was the rank that holds it"),
    (teach.check_largest, ([2, None, None, None],), "Only rank 0 knows"),
    (teach.check_largest, ([0, 1, 2, 3],), "Every rank named itself"),
    (teach.check_largest, ([0.0, 2.0, 4.0, 1.0],), "Every rank gave its own value"),
    (teach.check_logging, ([2.5] * 4,), "all four ranks would print it"),
    (teach.check_logging, ([10.0, None, None, None],), "divide by world_size"),
    (teach.check_logging, ([1.0, None, None, None],), "rank 0's own loss"),
    (teach.check_logging, ([None] * 4,), "No rank reports anything."),
    (teach.check_shard, (lambda n, r, w: list(range(n))[r * math.ceil(n / w) : (r + 1) * math.ceil(n / w)],),
     "8 samples, rank 0 of 4: expected [0, 4], got [0, 1]. You cut blocks"),
    (teach.check_shard, (lambda n, r, w: list(range(n))[r::w],), "10 samples, rank 2 of 4: expected [2, 6, 0], got [2, 6]."),
    (teach.check_shard, (lambda n, r, w: list(range(n))[r::w][: n // w],), "that is drop_last=True"),
    (teach.check_shard, (lambda n, r, w: (list(range(n)) + [n - 1] * (math.ceil(n / w) * w - n))[r::w],), "not from its end"),
    (teach.check_steps_per_epoch, (lambda n, w, b: n // (w * b),), "1437 samples, 4 ranks, batch 32: expected 12, got 11."),
    (teach.check_steps_per_epoch, (lambda n, w, b: math.ceil(n / b),), "got 45. That is one process alone"),
    (teach.check_steps_per_epoch, (lambda n, w, b: math.ceil(math.ceil(n / w) / (b / w)),), "batch_size is per rank"),
    (teach.check_exact_accuracy, (lambda flags, n: sum(map(sum, flags)) / sum(map(len, flags)),),
     "expected 0.6, got 0.6667. The padding is counted"),
    (teach.check_exact_accuracy, (lambda flags, n: sum(map(sum, flags)) / n,), "the sum still has the padding in it"),
    (teach.check_average_gradients, ([-408.0] * 4,), "divide by world_size"),
    (teach.check_average_gradients, ([-204.0] * 4,), "by the number of nodes"),
    (teach.check_average_gradients, ([-102.0, -408.0, -408.0, -408.0],), "Only rank 0 divides"),
    (teach.check_average_gradients, ([-52.0, -80.0, -116.0, -160.0],), "did not change"),
    (teach.check_average_gradients, ([-102.0, -89.0, -69.0, -40.0],), "use all_reduce"),
    (teach.check_accumulation, ([(2.04, 1)] * 4,), "Twice too far: divide"),
    (teach.check_accumulation, ([(2.04, 2)] * 4,), "Twice too far, and 2 all-reduces"),
    (teach.check_accumulation, ([(1.02, 2)] * 4,), "there were 2 all-reduces"),
    (teach.check_accumulation, ([(0.52, 0), (0.8, 0), (1.16, 0), (1.6, 0)],), "drifted apart"),
    (teach.check_accumulation, ([(0.0, 0)] * 4,), "Nothing was trained"),
    (teach.check_equal_on_all_ranks, ([(True, True)] * 4,), "compare the entries"),
    (teach.check_equal_on_all_ranks, ([(True, True)] * 3 + [(True, False)],), "Only rank 3 noticed"),
    (teach.check_equal_on_all_ranks, ([(False, False)] * 4,), "Equal tensors were taken for different ones"),
    (teach.check_global_batch, (lambda nodes, devices, batch, k: nodes * batch * k,), "expected 128, got 64. Each node has"),
    (teach.check_global_batch, (lambda nodes, devices, batch, k: nodes * devices * batch,), "once every `accumulate` batches"),
    (teach.check_global_batch, (lambda nodes, devices, batch, k: batch,), "one rank's batch"),
    (teach.check_same_training, (128, 0.2), "global batch of 512. The weights differ by up to 0.2."),
    (teach.check_same_training, (8, 0.2), "nodes are counted twice"),
    (teach.check_same_training, (64, None), "devices are forgotten"),
    (teach.check_same_training, (20, None), "4 ranks with 20 each make a global batch of 80"),
    (teach.check_same_training, (32, 0.1), "The batch is right, but the trainings differ"),
    (teach.check_exact_average, (lambda pairs: sum(m for m, _ in pairs) / len(pairs),),
     "expected 4.5, got 6.0. That is the mean"),
    (teach.check_exact_average, (lambda pairs: sum(m * n for m, n in pairs) / len(pairs),), "Divide by the samples"),
    (teach.check_slurm_numbers, (2, 4, 4), "8 agents and 32 processes"),
    (teach.check_slurm_numbers, (8, 1, 1), "8 machines"),
    (teach.check_slurm_numbers, (2, 4, 1), "each is a torchrun of its own"),
    (teach.check_slurm_numbers, (3, 1, 4), "3 nodes × 1 tasks = 3 torchruns, and 3 × 4 = 12 processes."),
    (teach.check_environment, ({**FIVE, "LOCAL_RANK": 5},), "LOCAL_RANK: expected 1, got 5. Node 1 has only four devices"),
    (teach.check_environment, ({**FIVE, "WORLD_SIZE": "2"},), "WORLD_SIZE: expected 8, got 2. That is the number of nodes"),
    (teach.check_environment, ({**FIVE, "MASTER_ADDR": "node1"},), "where rank 0 lives"),
    (teach.check_environment, ({"RANK": 5},), "LOCAL_RANK is missing."),
    (teach.check_uneven_rank, (lambda d, n, local: n * d[n] + local,),
     "[3, 1] devices, node_rank 1, local_rank 0: expected 3, got 1."),
    (teach.check_uneven_rank, (lambda d, n, local: n * max(d) + local,),
     "[1, 3] devices, node_rank 1, local_rank 0: expected 1, got 3."),
    (teach.check_amdahl, (lambda n, s: s + (1 - s) * n,),
     "2 ranks, serial share 0.1: expected 1.8182, got 1.9. That is Gustafson's"),
    (teach.check_amdahl, (lambda n, s: 1 / ((1 - s) + s / n),), "Serial and parallel share are swapped"),
    (teach.check_amdahl, (lambda n, s: (1 - s) * n,), "does not disappear"),
    (teach.check_ring_megabytes, (lambda n, mb: (n - 1) / n * mb,), "2 ranks, 100 MB: expected 100.0, got 50.0."),
    (teach.check_ring_megabytes, (lambda n, mb: 2 * mb,), "the limit for many ranks"),
    (teach.check_ring_megabytes, (lambda n, mb: (n - 1) * mb,), "4 ranks, 100 MB: expected 150.0, got 300"),
    (teach.check_reading, (1 / 3, 0.75, 0.8), "speed_up: expected 3, got 0.333333. That is upside down"),
    (teach.check_reading, (3, 3, 0.8), "efficiency: expected 0.75, got 3. That is the speed-up"),
    (teach.check_reading, (3, 0.75, 0.2), "do not divide by 4 once more"),
    (teach.check_culprits, (0, 1, 0), "Report 1: not rank 0. It waits for the culprit."),
    (teach.check_culprits, (2, 0, 0), "Report 2: not rank 0."),
    (teach.check_culprits, (2, 1), "There are 3 reports, got 2 answers."),
    (teach.check_skip_together, ([False, False, True, False],), "Each rank decides alone"),
    (teach.check_skip_together, ([False] * 4,), "All agree not to skip"),
    (teach.check_all_count, ([5.25] * 4,), "seven of eleven samples are lost"),
    (teach.check_all_count, ([8.375] * 4,), "five samples count more"),
    (teach.check_all_count, ([2.0, 20.0, 5.0, 6.5],), "its own samples only"),
    (teach.check_all_count, ([88.0] * 4,), "That is the sum"),
    (teach.check_all_count, ([22.0] * 4,), "by the number of ranks"),
]  # fmt: skip

UNTOUCHED: list[tuple[Any, ...]] = [
    (teach.check_rank_formula, lambda *case: ...),
    (teach.check_writer, lambda rank, local_rank: ...),
    (teach.check_weighted_mean, [...] * 4),
    (teach.check_equal_on_all_ranks, [(..., ...)] * 4),
    (teach.check_same_training, ..., None),
    (teach.check_slurm_numbers, ..., ..., ...),
    (teach.check_environment, dict.fromkeys(FIVE, ...)),
    (teach.check_reading, ..., ..., ...),
    (teach.check_culprits, ..., ..., ...),
]


def name(value: Any) -> str | None:
    return value.__name__ if getattr(value, "__name__", "").startswith("check_") else None


@pytest.mark.parametrize(("check", "answer"), [(check, answer) for check, *answer in RIGHT], ids=name)
def test_the_right_answer_is_right_and_the_praise_says_what_was_checked(check: Any, answer: Any) -> None:
    verdict = check(*answer)
    assert verdict.right, verdict
    assert len(verdict.text) > 7
    assert "✔ Right." in verdict._repr_html_()


@pytest.mark.parametrize(("check", "answer", "told"), WRONG, ids=name)
def test_a_wrong_answer_is_told_its_case_and_its_reason(check: Any, answer: Any, told: str) -> None:
    verdict = check(*answer)
    assert not verdict.right
    assert told in verdict.text, verdict.text
    assert "✘ Not yet." in verdict._repr_html_()


@pytest.mark.parametrize(("check", "answer"), [(check, answer) for check, *answer in UNTOUCHED], ids=name)
def test_an_exercise_that_nobody_has_touched_asks_for_an_answer(check: Any, answer: Any) -> None:
    assert check(*answer).text == NOTHING_YET


def test_every_check_of_the_course_is_tested_here() -> None:
    checks = {public for public in dir(teach) if public.startswith("check_")}
    assert {check.__name__ for check, *_ in RIGHT} == checks
    assert {check.__name__ for check, *_ in WRONG} == checks


@pytest.mark.parametrize(("samples", "world"), [(8, 4), (10, 4), (7, 3), (3, 4), (1, 4)])
def test_the_reference_shard_is_torchs(samples: int, world: int) -> None:
    for rank in range(world):
        assert shard(samples, rank, world) == list(DistributedSampler(range(samples), world, rank, shuffle=False))


def test_answers_of_another_group_are_recognised() -> None:
    assert "answers of 4 ranks, got 2" in teach.check_logging([2.5, None]).text


def test_true_is_not_one_and_numbers_may_differ_by_the_tolerance() -> None:
    assert not same(True, 1)
    assert same((1.0, [2]), [1.0 + 1e-9, (2,)], tolerance=1e-6)
    assert not same([1, 2], [1, 2, 3])
