import pytest

from gpulayer_nb.errors import PlanError
from gpulayer_nb.plan.accelerator import choose_accelerator
from gpulayer_nb.plan.assignment import assign
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.plan.workers import Worker


def worker(name, engines, *, embedded=False, torch="2.13.0"):
    return Worker(
        name=name, address="10.0.0.1", torch_version=torch, python_version="3.11", backends=("gloo",),
        engines=tuple(f"{name}{i}" for i in range(engines)), embedded=embedded,
    )  # fmt: skip


def test_the_embedded_worker_is_cut_into_simulated_nodes():
    assigned = assign(Topology(2, 2), [worker("local", 4, embedded=True)])
    assert [(a.place.rank, a.place.node_rank, a.place.local_rank, a.engine) for a in assigned] == [
        (0, 0, 0, "local0"), (1, 0, 1, "local1"), (2, 1, 0, "local2"), (3, 1, 1, "local3"),
    ]  # fmt: skip


def test_a_real_worker_is_one_node_and_workers_come_in_the_order_of_their_names():
    assigned = assign(Topology(2, 2), [worker("b", 2), worker("a", 3)])
    assert [a.engine for a in assigned] == ["a0", "a1", "b0", "b1"]


def test_a_request_is_never_made_smaller():
    with pytest.raises(
        PlanError, match=r"2 nodes × 4 devices = 8 ranks asked, but 1 worker of 2 can host 4 ranks \(a: 4 engines; b: 2 engines\)"
    ):
        assign(Topology(2, 4), [worker("a", 4), worker("b", 2)])


def test_workers_with_different_torch_are_refused_with_both_versions():
    with pytest.raises(PlanError, match=r"a has torch 2\.13\.0 on Python 3\.11, b has torch 2\.12\.1 on Python 3\.11"):
        assign(Topology(2, 1), [worker("a", 1), worker("b", 1, torch="2.12.1")])


@pytest.mark.parametrize(
    ("asked", "ranks", "gpus", "mps", "chosen"),
    [
        ("auto", 4, 0, False, "cpu"),
        ("auto", 2, 2, False, "cuda"),
        ("auto", 2, 1, False, "cpu"),
        ("auto", 1, 0, True, "mps"),
        ("auto", 2, 0, True, "cpu"),
        ("cpu", 1, 8, False, "cpu"),
    ],
)
def test_auto_takes_gpus_only_if_there_is_one_for_every_rank(asked, ranks, gpus, mps, chosen):
    assert choose_accelerator(asked, Topology(1, ranks), cuda_devices=gpus, mps=mps, where="worker local") == chosen


def test_two_gpus_asked_on_a_machine_with_one_say_both_numbers():
    with pytest.raises(PlanError, match=r"1 GPU found on worker local, 2 asked .* Next: `--devices 1`, or `--accelerator cpu`\."):
        choose_accelerator("cuda", Topology(1, 2), cuda_devices=1, mps=False, where="worker local")


def test_mps_runs_in_one_process_only():
    with pytest.raises(PlanError, match=r"mps runs in one process only, 2 ranks asked"):
        choose_accelerator("mps", Topology(1, 2), cuda_devices=0, mps=True, where="worker local")
