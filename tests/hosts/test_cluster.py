"""Several machines, found and lost: the same cell on three hosts, and what is said when something breaks between them."""

import os
import signal
import time

import pytest
from at_work import send_at_work
from hostlab import notebook_on
from lab_cluster import GPULAYER, LabCluster

pytestmark = pytest.mark.multihost

SETUP = """
%load_ext gpulayer_nb
import gpulayer_nb as glt, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
inputs = torch.randn(4096, 64)  # 1 MiB: travels as a file, once a worker
train_set = TensorDataset(inputs, inputs.sum(1, keepdim=True))
start = {name: value.clone() for name, value in nn.Linear(64, 1).state_dict().items()}
model = nn.Linear(64, 1)
"""
TRAIN = """%%gpulayer --nodes 2 --devices 2 --epochs {epochs} --target {target}
model.load_state_dict(start)
train_loader = DataLoader(train_set, batch_size=32)
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
ENDLESS = """%%ranks --nodes {nodes} --devices {devices} --target {target}
import time
while True: dist.barrier(); time.sleep(0.05)"""

LISTEN = """
import socket, time
server = socket.socket()
server.bind(("10.77.0.1", 10105))
server.listen()
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def cluster(lab):
    made = LabCluster(lab)
    made.start_controller()
    made.start_workers("a", "b", "c")
    yield made
    made.end()


@pytest.fixture(scope="module")
def notebook(cluster):
    made = notebook_on(cluster.lab["head"])
    try:
        made.ok(SETUP)
        yield made
    finally:
        if made.manager.has_kernel:
            made.end()


@pytest.fixture
def whole(cluster, notebook):
    """All cables mended and all three workers there, after the test too."""
    yield cluster
    notebook.run("%gpulayer down", 30)
    cluster.lab.mend()
    taken_out = [name for name in "abc" if name not in cluster.workers]
    if taken_out:
        cluster.start_workers(*taken_out)
    cluster.revive(3)


def begin(notebook, cluster, nodes=2, devices=2):
    """A cell that works on all ranks until something breaks; returns once it does."""
    notebook.ok(f"%gpulayer up --nodes {nodes} --devices {devices} --target {cluster.client_file}", 60)
    cell = ENDLESS.format(nodes=nodes, devices=devices, target=cluster.client_file)
    return send_at_work(notebook, cell, nodes * devices, cluster.lab.folder)


def fails_within(notebook, running, seconds, *words):
    started = time.monotonic()
    result = notebook.read(running, seconds + 20)
    took = time.monotonic() - started
    assert result.error is not None and result.error.startswith("RunFailed"), result.error
    for word in words:
        assert word in result.error, result.error
    assert took < seconds, f"{took:.1f} s: {result.error}"
    return result


def workers_of_ranks(notebook):
    return {line.split()[3] for line in notebook.ok("%gpulayer ranks").splitlines()[3:] if line[:1].isdigit()}


def test_workers_are_listed_with_their_addresses(cluster):
    rows = [row.split() for row in cluster.listed()]
    assert [(row[0], row[1], row[2]) for row in rows] == [
        ("a", "10.77.0.11", "a"),
        ("b", "10.77.0.12", "b"),
        ("c", "10.77.0.13", "c"),
    ]


def test_two_hosts_train_as_this_machine_does(cluster, notebook):
    shown = notebook.ok(TRAIN.format(epochs=2, target=cluster.client_file), 90)
    assert "workers a, b" in shown and "simulated" not in shown
    notebook.ok("there = {name: value.clone() for name, value in model.state_dict().items()}; far = glt.runs[-1]")
    assert "simulated" in notebook.ok(TRAIN.format(epochs=2, target="local"), 90)
    assert "True" in notebook.ok(
        "all(torch.allclose(there[name], value, atol=1e-6) for name, value in model.state_dict().items())"
    )


def test_what_ranks_elsewhere_wrote_is_here_too(cluster, notebook):
    cell = f"%%ranks --nodes 2 --devices 2 --target {cluster.client_file}\nprint('rank', rank); 1 / (3 - rank)"
    assert "ZeroDivisionError" in notebook.run(cell, 60).error
    said = notebook.ok("import pathlib; run = glt.runs[-1]; print([log.strip() for log in run.logs], run.folder.exists())")
    assert "'rank 0', 'rank 1', 'rank 2', 'rank 3'" in said and said.strip().endswith("True")
    records = notebook.ok("print(far.folder.joinpath('records.jsonl').read_text().count('epoch_metrics'))")
    assert int(records) >= 2  # rank 0 published them on another machine


def test_a_checkpoint_stays_with_rank_zero_and_can_be_fetched(cluster, notebook):
    assert notebook.ok("saved = far.checkpoints[-1]; print(saved.worker, saved.exists(), saved.name)").split() == [
        "a",
        "False",
        "last.pt",
    ]
    notebook.ok("copy = saved.fetch(); weights = torch.load(copy, weights_only=True)['model']")
    assert "True" in notebook.ok("print(copy.parent == far.folder / 'checkpoints')")
    assert "True" in notebook.ok("all(torch.equal(weights[name], value) for name, value in there.items())")
    resumed = TRAIN.replace("--epochs {epochs}", "--epochs 3 --resume last")
    assert "finished: 1 epoch, 96 steps" in notebook.ok(resumed.format(target=cluster.client_file), 60)


def test_modules_beside_the_notebook_travel_and_a_changed_one_is_read_again(cluster, notebook):
    write = "import pathlib; pathlib.Path('my_layers.py').write_text('def width(): return {}')"
    cell = f"%%ranks --nodes 2 --devices 1 --target {cluster.client_file}\nimport my_layers\nmy_layers.width()"
    for width in (64, 128):
        notebook.ok(write.format(width))
        assert notebook.ok(cell, 60).splitlines()[-2:] == [f"[rank 0] Out: {width}", f"[rank 1] Out: {width}"]


def test_a_killed_rank_is_told_with_its_worker_at_once(whole, notebook):
    running = begin(notebook, whole)
    engine = next(p for p in whole.lab["b"].processes() if "zygote" in p.command and p.pid != min_zygote(whole.lab["b"]))
    os.kill(engine.pid, signal.SIGKILL)
    fails_within(notebook, running, 3.0, "worker b", "was killed by signal 9")
    assert workers_of_ranks(notebook) == {"a", "b"}
    assert "[rank 3] Out: 3" in notebook.ok("%%ranks\nrank", 30)


def min_zygote(host):
    return min(p.pid for p in host.processes() if "zygote" in p.command)


def test_a_stopped_rank_is_given_up(whole, notebook):
    running = begin(notebook, whole)
    engine = max(p.pid for p in whole.lab["b"].processes() if "zygote" in p.command)
    os.kill(engine, signal.SIGSTOP)
    fails_within(notebook, running, 10.0, "worker b")
    assert "[rank 3] Out: 3" in notebook.ok("%%ranks\nrank", 30)
    assert not os.path.exists(f"/proc/{engine}")


@pytest.mark.parametrize(("fault", "limit"), [("pull_cable", 10.0), ("swallow", 12.0)])
def test_a_host_out_of_reach_ends_the_run_and_its_own_engines(whole, notebook, fault, limit):
    running = begin(notebook, whole)
    b = whole.lab["b"]
    getattr(b.port, fault)()
    fails_within(notebook, running, limit, "worker b", "has not been heard for")
    assert b.wait_until_idle(3.0) == []  # its engines ended with their lease
    assert whole.workers["b"].wait(5.0) == 1 and "has been silent for" in whole.said("b")
    assert "[rank 3] Out: 3" in notebook.ok("%%ranks --nodes 2 --devices 2\nrank", 60)  # on a and c
    assert workers_of_ranks(notebook) == {"a", "c"}
    refused = notebook.run("%%ranks --nodes 3 --devices 2\nrank", 30)
    assert refused.error.startswith("PlanError: 3 nodes × 2 devices = 6 ranks on cpu asked, but 2 workers of"), refused.error


def test_a_cable_that_is_back_soon_costs_nothing(whole, notebook):
    notebook.ok(f"%gpulayer up --nodes 2 --devices 1 --target {whole.client_file}", 60)
    running = notebook.send("%%ranks\nimport time\nfor _ in range(60): dist.barrier(); time.sleep(0.05)\nrank")
    time.sleep(1.0)
    whole.lab["b"].port.pull_cable()
    time.sleep(2.0)
    whole.lab["b"].port.plug_cable()
    assert "[rank 1] Out: 1" in notebook.read(running, 40).text


def test_a_host_that_loses_power_is_named(whole, notebook):
    running = begin(notebook, whole, nodes=3)
    whole.lab["c"].power_off()
    fails_within(notebook, running, 12.0, "worker c", "has not been heard for")
    whole.workers.pop("c").wait(5.0)


def test_closed_ports_between_workers_are_told_before_anything_hangs(whole, notebook):
    whole.lab["b"].port.close_ports(32768, 60999)
    started = time.monotonic()
    refused = notebook.run(f"%%ranks --nodes 3 --devices 1 --target {whole.client_file}\nrank", 40)
    assert time.monotonic() - started < 10.0
    assert refused.error.startswith("ClusterError: Workers cannot reach each other"), refused.error
    assert "a → b, 10.77.0.12:" in refused.error and "no answer in 3 s" in refused.error and "a → c" not in refused.error
    whole.lab["b"].port.mend()
    assert "[rank 2] Out: 2" in notebook.ok(f"%%ranks --nodes 3 --devices 1 --target {whole.client_file}\nrank", 60)


def test_an_address_that_others_cannot_use_is_refused_at_the_start(cluster):
    for address, words in (("10.77.0.99", "is no address of this machine"), ("127.0.0.1", "is a loopback address")):
        refused = cluster.try_worker("a", "--advertise-address", address)
        assert refused.returncode == 1 and words in refused.stderr and "eth0 10.77.0.11" in refused.stderr


def test_a_host_whose_own_name_is_loopback_is_reached_by_its_address(whole, notebook):
    whole.stop_workers("b")
    hosts = whole.lab["b"].hosts_file
    before = hosts.read_text()
    hosts.write_text("127.0.0.1 localhost\n127.0.1.1 b\n")
    try:
        whole.start_workers("b")
        assert "10.77.0.12" in next(row for row in whole.listed() if row.startswith("b "))
        cell = f"%%ranks --nodes 3 --devices 1 --target {whole.client_file}\ndist.barrier(); rank"
        assert "[rank 2] Out: 2" in notebook.ok(cell, 60)
    finally:
        hosts.write_text(before)


def test_hosts_with_one_name_are_told_apart(whole, notebook):
    whole.stop_workers("c")
    whole.lab["c"].run(["hostname", "b"])
    try:
        whole.start_workers("c")
        assert [row.split("  ")[0] for row in whole.listed()] == ["a", "b (10.77.0.12)", "b (10.77.0.13)"]
        said = notebook.ok(f"%%ranks --nodes 3 --devices 1 --target {whole.client_file}\ndist.barrier(); node_rank", 60)
        assert "[rank 2] Out: 2" in said
    finally:
        whole.stop_workers("c")
        whole.lab["c"].run(["hostname", "c"])


def test_lost_packets_and_a_narrow_line_slow_a_run_and_do_not_end_it(whole, notebook):
    for port in (whole.lab["a"].port, whole.lab["b"].port):
        port.lose(1)
    whole.lab["b"].port.limit("20mbit")
    shown = notebook.ok(TRAIN.format(epochs=2, target=whole.client_file), 90)
    assert "finished: 2 epochs" in shown


def test_a_port_in_use_is_named(cluster):
    head = cluster.lab["head"]
    log = head.folder / "listen.log"
    busy = head.start([GPULAYER[0], "-c", LISTEN], log=log)
    try:
        while "ready" not in log.read_text():
            time.sleep(0.02)
        refused = head.run(
            [*GPULAYER, "controller", "start", "--ip", "10.77.0.1", "--name", "other", "--ports", "10101"], check=False
        )
        assert refused.returncode == 1 and "10105 (Address already in use)" in refused.stderr
    finally:
        busy.terminate()


def test_an_ended_controller_ends_the_run_and_every_worker(whole, notebook):
    running = begin(notebook, whole)
    whole.controller.kill()
    fails_within(notebook, running, 10.0, "no controller answers at 10.77.0.1")
    for name in "abc":
        assert whole.workers[name].wait(10.0) == 1
        assert whole.lab[name].wait_until_idle(3.0) == []
        del whole.workers[name]
    refused = notebook.run("%%ranks\nrank", 30)
    assert refused.error.startswith("ClusterError: Cluster") and "no controller answers at 10.77.0.1" in refused.error
    whole.start_controller()
    whole.start_workers("a", "b", "c")
    assert "[rank 3] Out: 3" in notebook.ok(f"%%ranks --nodes 2 --devices 2 --target {whole.client_file}\nrank", 60)


def test_nothing_is_left_on_any_host(cluster, notebook):
    notebook.end()
    cluster.end()
    for host in cluster.lab:
        assert host.wait_until_idle(10.0) == []
        find = ["find", "/tmp/gpulayer-0", "/dev/shm", "-path", "*gpulayer-0*", "-type", "f"]
        left = host.run(find, check=False).stdout.splitlines()  # fails where there is no such folder
        assert [path for path in left if "/gpulayer-0/worker-" not in path] == []  # a failed worker's log is kept
