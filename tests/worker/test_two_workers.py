"""The same cell on two workers that were started by hand: real engines, a real notebook, one machine."""

import os
import signal
import subprocess
import sys
import time

import pytest
from at_work import send_at_work

from gpulayer_nb.process import children_of
from gpulayer_nb.server.refusals import NotThereError
from gpulayer_nb.server.service import Service

pytestmark = pytest.mark.slow  # a kernel, a controller and two imports of torch

SETUP = """
torch.manual_seed(0)
inputs = torch.randn(4096, 64)  # 1 MiB: travels as a file, once a worker
train_set = TensorDataset(inputs, inputs.sum(1, keepdim=True))
start = {name: value.clone() for name, value in nn.Linear(64, 1).state_dict().items()}
model = nn.Linear(64, 1)
"""
TRAIN = """%%gpulayer --nodes 2 --devices 2 --epochs 1 --target {target}
model.load_state_dict(start)
train_loader = DataLoader(train_set, batch_size=32)
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""


def worker_command(*arguments):
    command = [sys.executable, "-m", "gpulayer_nb", "worker", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def worker_list(*arguments):
    return worker_command("list", *arguments)


def eventually(what, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s"
        time.sleep(0.1)
    return value


def test_ranks_are_on_both_workers_in_the_order_of_their_names(loopback, notebook):
    cell = "dist.all_reduce(total := torch.tensor([float(rank)])); (node_rank, local_rank, total.item())"
    said = notebook.ok(f"%%ranks --nodes 2 --devices 2 --target {loopback.client_file}\n{cell}", 120)
    assert said.splitlines() == [
        "[rank 0] Out: (0, 0, 6.0)", "[rank 1] Out: (0, 1, 6.0)", "[rank 2] Out: (1, 0, 6.0)", "[rank 3] Out: (1, 1, 6.0)",
    ]  # fmt: skip
    table = [line.split()[:4] for line in notebook.ok("%gpulayer ranks").splitlines()[3:7]]
    assert table == [["0", "0", "0", "a"], ["1", "0", "1", "a"], ["2", "1", "0", "b"], ["3", "1", "1", "b"]]


def test_training_gives_what_it_gives_on_this_machine_and_names_the_workers(loopback, notebook):
    notebook.ok(SETUP)
    shown = notebook.ok(TRAIN.format(target=loopback.client_file), 120)
    assert "workers a, b" in shown and "simulated" not in shown
    notebook.ok("there = {name: value.clone() for name, value in model.state_dict().items()}")
    assert "simulated" in notebook.ok(TRAIN.format(target="local"), 120)
    assert "True" in notebook.ok("all(torch.equal(there[name], value) for name, value in model.state_dict().items())")


def test_a_second_notebook_is_told_who_has_the_workers(loopback, notebook):
    notebook.ok(f"%gpulayer up --nodes 2 --devices 2 --target {loopback.client_file}", 120)
    busy = worker_list("--target", str(loopback.client_file)).stdout.splitlines()
    assert [(line.split()[0], "2 busy with" in line) for line in busy[1:]] == [("a", True), ("b", True)]
    code = (
        "from gpulayer_nb.api.current import session; from gpulayer_nb.plan.topology import Topology\n"
        f"session().up(Topology(2, 2), 'cpu', {str(loopback.client_file)!r}, say=print)"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "PlanError" in other.stderr and "0 of 2 devices free, busy with" in other.stderr
    notebook.ok("%gpulayer down")
    free = worker_list("--target", str(loopback.client_file)).stdout
    assert "busy" not in free and len(free.splitlines()) == 3


def test_a_detached_run_has_the_workers_until_it_is_over(loopback, notebook):
    shown = notebook.ok(TRAIN.format(target=loopback.client_file).replace("--nodes", "--detach --nodes"), 120)
    assert "goes on by itself" in shown
    state = notebook.ok("import time; run = glt.runs[-1]; print(run.wait(60), run.metrics['loss'] < 60)", 90)
    assert state.split() == ["finished", "True"]
    deadline = time.monotonic() + 10
    while "busy" in worker_list("--target", str(loopback.client_file)).stdout:
        assert time.monotonic() < deadline
        time.sleep(0.3)


def test_the_next_notebook_gets_processes_that_know_nothing_of_the_last(loopback, notebook):
    notebook.ok(f"%%ranks --nodes 1 --devices 2 --target {loopback.client_file}\nsecret = 42", 120)
    notebook.ok("%gpulayer down")
    said = notebook.ok(f"%%ranks --nodes 1 --devices 2 --no-sync --target {loopback.client_file}\n'secret' in globals()", 120)
    assert said.splitlines() == ["[rank 0] Out: False", "[rank 1] Out: False"]


def test_the_key_files_are_readable_by_their_owner_alone(loopback):
    for path in (loopback.engine_file, loopback.client_file):
        assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o077 == 0


def test_what_the_workers_cannot_hold_does_not_cost_the_ranks_that_are_up(loopback, notebook):
    notebook.ok(f"%%ranks --nodes 2 --devices 2 --target {loopback.client_file}\nkeep = 40 + rank", 120)
    for more in ("--nodes 3 --devices 2", "--nodes 2 --devices 3", "--nodes 2 --devices 2 --accelerator cuda"):
        refused = notebook.run(f"%%ranks {more}\nkeep", 30)
        assert refused.error.startswith("PlanError: "), refused.error
    assert notebook.ok("%%ranks\nkeep").splitlines() == [f"[rank {r}] Out: {40 + r}" for r in range(4)]


def test_a_worker_is_taken_out_from_afar_and_joins_again(loopback, notebook):
    """From the panel's server and from a terminal; the notebook whose ranks were there is told which worker it lost."""
    notebook.ok(f"%gpulayer up --nodes 2 --devices 2 --target {loopback.client_file}", 120)
    service, processes, target = Service(), loopback.processes, str(loopback.client_file)
    try:
        cluster = eventually(lambda: next((row for row in service.look().clusters if len(row["workers"]) == 2), None))
        key = {worker["name"]: worker["key"] for worker in cluster["workers"]}
        with pytest.raises(NotThereError, match="has no worker nobody"):
            service.end_worker(cluster["name"], "nobody")
        service.end_worker(cluster["name"], key["b"])
        assert processes.started["b"].wait(10.0) == 0
        assert "worker b: ended, asked to by the panel." in processes.said("b")
        eventually(lambda: [worker["name"] for worker in service.look().clusters[0]["workers"]] == ["a"])
    finally:
        service.close()
    lost = notebook.run("%%ranks\nrank", 30)
    assert lost.error is not None and "1 worker of" in lost.error, lost.error
    arguments = ("worker", "start", "--controller", str(loopback.engine_file), "--devices", "2", "--name", "b")
    processes.start("b", *arguments)
    eventually(lambda: "\nb " in worker_list("--target", target).stdout)
    stopped = worker_command("stop", "b", "--target", target)
    assert stopped.stdout.strip() == "worker b ends, and its engines with it", stopped.stderr
    assert processes.started["b"].wait(10.0) == 0
    refused = worker_command("stop", "b", "--target", target)
    assert refused.returncode == 1 and "has no worker b; it has a." in refused.stderr, refused.stderr
    processes.start("b", *arguments)
    assert "4.0" in notebook.ok(f"%%ranks --nodes 2 --devices 2 --target {target}\nfloat(world_size)", 120)


def test_a_worker_that_is_told_to_end_says_so_and_the_run_ends_at_once(loopback, notebook):
    target = str(loopback.client_file)
    notebook.ok(f"%gpulayer up --nodes 2 --devices 2 --target {target}", 120)
    running = send_at_work(notebook, "%%ranks\nimport time\nfor _ in range(600): dist.barrier(); time.sleep(0.1)")
    loopback.processes.started["b"].send_signal(signal.SIGTERM)
    started = time.monotonic()
    result = notebook.read(running, 30)
    took = time.monotonic() - started
    assert "worker b has ended: asked to by SIGTERM" in result.error, result.error
    assert took < 5.0, took  # by its silence alone it would be known after six and a half
    assert "\nb " not in worker_list("--target", target).stdout
    loopback.processes.start("b", "worker", "start", "--controller", str(loopback.engine_file), "--devices", "2", "--name", "b")
    eventually(lambda: "\nb " in worker_list("--target", target).stdout)


def test_a_killed_worker_takes_its_engines_along_and_the_run_says_who_was_lost(loopback, notebook):
    notebook.ok(f"%gpulayer up --nodes 2 --devices 2 --target {loopback.client_file}", 120)
    b = loopback.processes.started["b"]
    below = children_of(b.pid)
    assert len(below) == 3  # the zygote and two engines
    running = send_at_work(notebook, "%%ranks\nimport time\nfor _ in range(600): dist.barrier(); time.sleep(0.1)")
    os.kill(b.pid, signal.SIGKILL)
    started = time.monotonic()
    result = notebook.read(running, 30)
    assert "RunFailed" in result.error and "worker b" in result.error, result.error
    assert time.monotonic() - started < 10.0
    assert not [pid for pid in below if os.path.exists(f"/proc/{pid}")]
    refused = notebook.run("%%ranks\nrank", 30)
    assert "PlanError" in refused.error and "1 worker of" in refused.error, refused.error


def test_an_ended_controller_takes_its_workers_along(loopback, notebook):
    a, controller = (loopback.processes.started[name] for name in ("a", "controller"))
    controller.send_signal(signal.SIGTERM)
    assert controller.wait(10.0) == 0
    assert a.wait(10.0) == 1
    assert "the controller at 127.0.0.1" in loopback.processes.said("a") and "has been silent for" in loopback.processes.said("a")
    refused = notebook.run("%%ranks\nrank", 30)  # on the cluster that was chosen, never on this machine in its place
    assert refused.error.startswith("UsageError: There is no connection file"), refused.error
    assert "[rank 0] Out: 0" in notebook.ok("%gpulayer down\n") + notebook.ok("%%ranks\nrank", 120)
