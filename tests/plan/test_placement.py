"""Which workers a run gets: right ones, in a stable order, or a table of why not."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulayer_nb.errors import PlanError
from gpulayer_nb.plan.placement import place
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.plan.workers import Worker, with_distinct_names


def worker(name, devices=2, *, torch="2.13.0", python="3.11", cuda=0, **facts):
    backends = ("gloo", "nccl") if cuda else ("gloo",)
    return Worker(
        key=facts.pop("key", f"{name}~k"), name=name, address=facts.pop("address", "10.0.0.1"), host=facts.pop("host", name),
        torch_version=torch, python_version=python, backends=backends, devices=devices, cuda_devices=cuda, **facts,
    )  # fmt: skip


def names(placement):
    return [node.worker.name for node in placement.nodes]


WORKERS = st.lists(
    st.builds(
        worker,
        name=st.sampled_from([f"n{i}" for i in range(8)]),
        devices=st.integers(1, 8),
        torch=st.sampled_from(["2.13.0", "2.12.1", "2.13.0+cpu"]),
        python=st.sampled_from(["3.11", "3.12"]),
        cuda=st.sampled_from([0, 0, 2, 8]),
        taken=st.dictionaries(st.integers(0, 7), st.just("ada"), max_size=3),
        is_ready=st.sampled_from([True, True, True, False]),
        accelerator=st.sampled_from(["auto", "auto", "cpu"]),
    ),
    max_size=12,
    unique_by=lambda w: w.key,
)


@given(WORKERS, st.integers(1, 5), st.integers(1, 5), st.sampled_from(["auto", "cpu", "cuda"]), st.randoms())
def test_a_placement_is_whole_fits_and_agrees_or_it_is_refused_with_every_worker_named(workers, nodes, devices, asked, random):
    topology = Topology(nodes, devices)
    placement, words = None, ""
    try:
        placement = place(topology, asked, workers)
    except PlanError as refusal:
        words = str(refusal)
    if placement is None:
        assert all(w.name in words for w in workers) and str(topology) in words
        able = [w for w in workers if w.is_ready and len(w.free_slots("cpu")) >= devices and w.accelerator in ("auto", "cpu")]
        if asked == "cpu":  # then no set of workers that agree was large enough
            assert all(sum(w.versions == one.versions for w in able) < nodes for one in able)
        return
    assert len(placement.nodes) == nodes and len({node.worker.key for node in placement.nodes}) == nodes
    assert len({node.worker.versions for node in placement.nodes}) == 1
    for node in placement.nodes:
        assert len(node.slots) == devices and set(node.slots) <= set(node.worker.free_slots(placement.accelerator))
        assert list(node.slots) == sorted(node.slots)
    shuffled = list(workers)
    random.shuffle(shuffled)
    assert place(topology, asked, shuffled) == placement  # the order in which workers joined does not matter


def test_nodes_come_in_the_order_of_the_workers_names_ten_after_nine():
    assert names(place(Topology(3, 2), "cpu", [worker("n10"), worker("n9"), worker("n1")])) == ["n1", "n9", "n10"]


def test_workers_with_equal_devices_are_preferred_and_of_those_the_closest_fit():
    workers = [worker("a", 8), worker("b", 2), worker("c", 4), worker("d", 4)]
    assert names(place(Topology(2, 2), "cpu", workers)) == ["c", "d"]
    assert names(place(Topology(1, 2), "cpu", workers)) == ["b"]
    assert names(place(Topology(3, 2), "cpu", workers)) == ["b", "c", "d"]


def test_two_workers_of_one_machine_are_taken_only_if_there_are_not_enough_machines():
    workers = [worker("a", host="x"), worker("b", host="x"), worker("c", host="y")]
    assert names(place(Topology(2, 2), "cpu", workers)) == ["a", "c"]
    assert names(place(Topology(3, 2), "cpu", workers)) == ["a", "b", "c"]


def test_builds_of_one_torch_version_agree_and_other_versions_do_not():
    assert names(place(Topology(2, 1), "cpu", [worker("a", torch="2.13.0+cpu"), worker("b", torch="2.13.0+cu126")])) == ["a", "b"]
    with pytest.raises(PlanError) as refusal:
        place(Topology(2, 1), "cpu", [worker("a"), worker("b", torch="2.12.1"), worker("c", python="3.12")])
    assert str(refusal.value) == (
        "2 nodes × 1 device = 2 ranks on cpu asked, but workers differ in torch or Python, and no 2 of them agree. "
        "Nothing was started. Next: install the same torch and Python on each, or ask for fewer nodes.\n"
        "worker  address   torch   python\n"
        "a       10.0.0.1  2.13.0  3.11    can hold a node\n"
        "b       10.0.0.1  2.12.1  3.11    can hold a node\n"
        "c       10.0.0.1  2.13.0  3.12    can hold a node"
    )


def test_a_request_is_never_made_smaller_and_every_worker_has_its_reason():
    workers = [
        worker("a", 4), worker("b", 2), worker("c", 4, taken={1: "ada@head, process 7"}),
        worker("d", 4, is_ready=False, torch="", python=""), worker("e", 4, accelerator="cuda"),
    ]  # fmt: skip
    with pytest.raises(PlanError) as refusal:
        place(Topology(2, 4), "cpu", workers, {"f": "does not answer"})
    assert str(refusal.value) == (
        "2 nodes × 4 devices = 8 ranks on cpu asked, but 1 worker of 6 can hold 4 ranks. Nothing was started. "
        "Next: start more with `gpulayer worker start`, wait for busy ones, or ask for fewer nodes or devices.\n"
        "worker  address   torch   python\n"
        "a       10.0.0.1  2.13.0  3.11    can hold a node\n"
        "b       10.0.0.1  2.13.0  3.11    has 2 devices\n"
        "c       10.0.0.1  2.13.0  3.11    3 of 4 devices free, busy with ada@head, process 7\n"
        "d       10.0.0.1  ?       ?       is still loading torch\n"
        "e       10.0.0.1  2.13.0  3.11    lends cuda only\n"
        "f                                 does not answer"
    )


def test_no_worker_at_all_says_how_to_start_one():
    with pytest.raises(
        PlanError, match=r"no worker has joined the cluster\. Nothing was started\. Next: `gpulayer worker start`"
    ):
        place(Topology(1, 1), "auto", [])


def test_auto_takes_gpus_where_there_are_enough_and_never_the_cpu_because_they_are_busy():
    gpus = [worker("a", 2, cuda=2), worker("b", 2, cuda=2), worker("c", 8)]
    assert place(Topology(2, 2), "auto", gpus).accelerator == "cuda"
    assert place(Topology(3, 2), "auto", gpus).accelerator == "cpu"
    busy = [worker("a", 2, cuda=2, taken={0: "ada"}), *gpus[1:]]
    with pytest.raises(PlanError, match="1 of 2 GPUs free, busy with ada"):
        place(Topology(2, 2), "auto", busy)


def test_too_few_gpus_by_name_is_a_refusal_with_their_number():
    with pytest.raises(PlanError, match=r"or `--accelerator cpu`\.\n(?s:.*)a .* has 1 GPU"):
        place(Topology(1, 2), "cuda", [worker("a", 4, cuda=1)])


def test_mps_runs_in_one_process_only():
    with pytest.raises(PlanError, match="mps runs in one process only, 2 ranks asked"):
        place(Topology(1, 2), "mps", [worker("a", mps=True)])
    assert place(Topology(1, 1), "mps", [worker("a", mps=True)]).accelerator == "mps"


def test_equal_names_are_told_apart_by_address_and_then_by_key():
    same = [
        worker("n", key="n~1", address="10.0.0.1"), worker("n", key="n~2", address="10.0.0.2"),
        worker("n", key="n~3", address="10.0.0.2"), worker("m"),
    ]  # fmt: skip
    assert [w.name for w in with_distinct_names(same)] == ["n (10.0.0.1)", "n (10.0.0.2) 2", "n (10.0.0.2) 3", "m"]


def test_planning_grows_with_the_workers_not_with_their_square():
    def seconds(count):
        workers = [worker(f"n{i}", 8) for i in range(count)]
        started = time.process_time()
        place(Topology(count, 4), "cpu", workers)
        return time.process_time() - started

    small = min(seconds(64) for _ in range(5))
    assert min(seconds(1024) for _ in range(3)) < 64 * small  # 16 times the workers; their square would be 256 times
