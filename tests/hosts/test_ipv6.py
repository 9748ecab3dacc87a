"""Hosts that have IPv6 addresses alone: controller, workers, the group, shipping, launch and what they say."""

import json

import pytest
from at_work import send_at_work
from hostlab.fixtures import NETWORK_TOOLS, require
from hostlab.kernel import notebook_on
from hostlab.lab import Lab
from hostlab.training import SETUP, check_training
from lab_cluster import GPULAYER, LabCluster

pytestmark = pytest.mark.multihost
HOSTS = {"head": "fd77::1", "a": "fd77::11", "b": "fd77::12"}
SCRIPT = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(1); dist.all_reduce(x)
print("hello", os.environ["RANK"], os.environ["MASTER_ADDR"], int(x))
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def cluster():
    require(NETWORK_TOOLS)
    with Lab(HOSTS) as lab:
        made = LabCluster(lab)
        made.start_controller()
        made.start_workers("a", "b")
        yield made
        made.end()


@pytest.fixture(scope="module")
def notebook(cluster):
    made = notebook_on(cluster.lab["head"])
    made.ok(SETUP)
    yield made
    made.end()


def test_nobody_has_another_address(cluster):
    for host in cluster.lab:
        found = json.loads(host.run(["ip", "-j", "addr", "show", "dev", "eth0"]).stdout)[0]["addr_info"]
        assert {entry["local"] for entry in found if entry["scope"] == "global"} == {host.address}


def test_addresses_are_written_in_brackets_where_a_port_follows(cluster):
    info = json.loads(cluster.lab["head"].run(["cat", cluster.engine_file]).stdout)
    assert info["interface"] == "tcp://[fd77::1]"
    assert [row.split()[0] for row in cluster.listed()] == ["a", "b"]
    assert all(address in row for address, row in zip(("fd77::11", "fd77::12"), cluster.listed(), strict=True))
    assert "at fd77::11 (eth0), controller fd77::1" in cluster.said("a")


def test_a_script_is_launched(cluster):
    head = cluster.lab["head"]
    head.run(["sh", "-c", 'mkdir -p /tmp/job && printf "%s" "$1" > /tmp/job/script.py', "sh", SCRIPT])
    done = head.run(
        [*GPULAYER, "launch", "/tmp/job/script.py", "--nodes", "2", "--devices", "2", "--target", str(cluster.client_file)],
        timeout=90,
    )
    assert sorted(done.stdout.splitlines()) == [f"[rank {rank}] hello {rank} fd77::11 4" for rank in range(4)]


def test_four_ranks_train_as_one_process(cluster, notebook):
    check_training(notebook, str(cluster.client_file))


def test_a_big_dataset_and_the_weights_travel(cluster, notebook):
    notebook.ok("x = torch.randn(65536, 16); big = TensorDataset(x, x.sum(1, keepdim=True)); model = nn.Linear(16, 1)")  # 4 MiB
    loss = "print(((model(x) - big.tensors[1]) ** 2).mean().item())"
    before = float(notebook.ok(loss))
    notebook.ok(
        f"%%gpulayer --nodes 2 --devices 2 --target {cluster.client_file}\ntrain_loader = DataLoader(big, batch_size=512)\n"
        "loss_fn = nn.MSELoss(); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        60,
    )
    assert float(notebook.ok(loss)) < before / 10


def test_a_killed_worker_is_named(cluster, notebook):
    notebook.ok(f"%gpulayer up --nodes 2 --devices 2 --target {cluster.client_file}", 60)
    cell = "%%ranks\nimport time\nfor _ in range(600): dist.barrier(); time.sleep(0.1)"
    running = send_at_work(notebook, cell, folder=cluster.lab.folder)
    cluster.workers["b"].kill()
    result = notebook.read(running, 30)
    assert result.error.startswith("RunFailed") and "worker b" in result.error, result.error
    cluster.start_workers("b")


def test_an_address_is_understood_however_it_is_written(cluster):
    head = cluster.lab["head"]
    refused = head.run([*GPULAYER, "controller", "start", "--ip", "[FD77:0:0::1]", "--name", "lab"], check=False)
    assert refused.returncode == 1 and "A cluster named lab is running" in refused.stderr
    refused = head.run([*GPULAYER, "controller", "start", "--ip", "fd77::99", "--name", "other"], check=False)
    assert refused.returncode == 1 and "--ip fd77::99 is no address of this machine" in refused.stderr
    refused = cluster.try_worker("a", "--advertise-address", "fd77::12")
    assert refused.returncode == 1 and "fd77::12 is no address of this machine" in refused.stderr


def test_a_controller_on_every_address_is_dialled_at_its_location(cluster):
    other = LabCluster(cluster.lab, "other")
    try:
        other.start_controller("--ip", "::", "--location", "fd77::1")
        other.start_workers("b", options=("--devices", "1"))
        assert [row.split()[:2] for row in other.listed()] == [["b", "fd77::12"]]
    finally:
        other.end()


def test_a_controller_that_has_ended_is_said_with_its_address(cluster, notebook):
    assert cluster.controller is not None
    cluster.controller.kill()
    cluster.controller.wait(5)
    for name in "ab":
        assert cluster.workers[name].wait(15) == 1
        assert "the controller at [fd77::1]:" in cluster.said(name)
    refused = cluster.lab["head"].run([*GPULAYER, "worker", "list", "--target", str(cluster.client_file)], check=False)
    assert refused.returncode == 1 and "no controller answers at [fd77::1]:" in refused.stderr, refused.stderr
