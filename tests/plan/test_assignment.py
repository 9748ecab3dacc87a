import pytest

from gpulayer_nb.errors import PlanError
from gpulayer_nb.plan.accelerator import backend_for, check_system, choose_accelerator, note_on_choice
from gpulayer_nb.plan.assignment import assign_embedded, assign_nodes
from gpulayer_nb.plan.placement import Node, Placement
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.plan.workers import Worker


def worker(name, **facts):
    return Worker(
        key=f"{name}~1", name=name, address=f"10.0.0.{ord(name[0])}", interface="eth0", torch_version="2.13.0",
        python_version="3.11", backends=("gloo",), **facts,
    )  # fmt: skip


def test_the_embedded_worker_is_cut_into_simulated_nodes():
    assigned = assign_embedded(Topology(2, 2), worker("local", engines={slot: f"engine{slot}" for slot in range(4)}))
    assert [(a.place.rank, a.place.node_rank, a.place.local_rank, a.engine) for a in assigned] == [
        (0, 0, 0, "engine0"), (1, 0, 1, "engine1"), (2, 1, 0, "engine2"), (3, 1, 1, "engine3"),
    ]  # fmt: skip
    assert all(a.simulated for a in assigned)


def test_a_missing_engine_is_never_made_up_for():
    with pytest.raises(PlanError, match=r"2 nodes × 2 devices = 4 ranks asked, 3 engines on worker local"):
        assign_embedded(Topology(2, 2), worker("local", engines={0: "a", 1: "b", 3: "d"}))


def test_a_real_worker_is_one_node_and_its_slots_are_local_ranks_in_their_order():
    placement = Placement((Node(worker("a"), (0, 2)), Node(worker("b"), (1, 3))), "cpu")
    engines = {("a~1", 0): "a0", ("a~1", 2): "a2", ("b~1", 1): "b1", ("b~1", 3): "b3"}
    assigned = assign_nodes(Topology(2, 2), placement, engines)
    assert [(a.place.rank, a.place.local_rank, a.engine, a.worker, a.address, a.interface) for a in assigned] == [
        (0, 0, "a0", "a", "10.0.0.97", "eth0"), (1, 1, "a2", "a", "10.0.0.97", "eth0"),
        (2, 0, "b1", "b", "10.0.0.98", "eth0"), (3, 1, "b3", "b", "10.0.0.98", "eth0"),
    ]  # fmt: skip
    assert not any(a.simulated for a in assigned)


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


@pytest.mark.parametrize(
    ("system", "asked", "shape", "gpus", "mps", "outcome", "note"),
    [
        ("linux", "auto", (2, 2), 4, False, ("cuda", "nccl"), ""),
        ("linux", "auto", (1, 2), 0, False, ("cpu", "gloo"), ""),
        ("linux", "cuda", (1, 1), 1, False, ("cuda", "nccl"), ""),
        ("darwin", "auto", (1, 1), 0, True, ("mps", "gloo"), ""),
        ("darwin", "auto", (1, 2), 0, True, ("cpu", "gloo"), "2 ranks on the CPU: Apple's GPU (mps) serves one process only."),
        ("darwin", "cpu", (1, 2), 0, True, ("cpu", "gloo"), ""),
        ("darwin", "mps", (1, 2), 0, True, "mps runs in one process only, 2 ranks asked", ""),
        ("linux", "mps", (1, 1), 0, False, "No MPS device found on worker local", ""),
        ("win32", "auto", (1, 1), 0, False, "Ranks do not run on Windows itself", ""),
        ("win32", "cpu", (2, 2), 0, False, "Next: start Jupyter in WSL 2", ""),
    ],
)
def test_what_each_system_runs_on(system, asked, shape, gpus, mps, outcome, note):
    topology = Topology(*shape)

    def choose():
        check_system(system)
        return choose_accelerator(asked, topology, cuda_devices=gpus, mps=mps, where="worker local")

    if isinstance(outcome, str):
        with pytest.raises(PlanError, match=outcome):
            choose()
        return
    chosen = choose()
    assert (chosen, backend_for(chosen)) == outcome
    assert note_on_choice(asked, chosen, topology, mps=mps) == note
