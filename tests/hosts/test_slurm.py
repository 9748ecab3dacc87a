"""`%gpulayer up --target slurm` on a real Slurm: two nodes, two ranks on each, and what Slurm does to them."""

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from at_work import send_training
from hostlab import notebook_on
from hostlab.training import ENDLESS, SETUP, TRAIN, check_training

pytestmark = pytest.mark.slurm
UP = "%gpulayer up --target slurm --nodes 2 --devices 2 --partition main --time 00:10:00"
DAEMONS = ["slurmd", "slurmctld", "slurmscriptd", "munged"]
LIMIT_SECONDS = 10.0


@pytest.fixture(scope="module")
def home(slurm_lab):
    return slurm_lab.lab.folder / "home"


@pytest.fixture(scope="module")
def notebook(slurm_lab, home):
    made = notebook_on(slurm_lab.lab["head"], {**slurm_lab.env, "GPULAYER_HOME": str(home)})
    try:
        made.ok(SETUP)
        yield made
    finally:
        if made.manager.has_kernel:
            made.end()


@pytest.fixture(autouse=True)
def _nodes_as_they_were(slurm_lab):
    yield
    slurm_lab.resume_nodes()


def up(notebook):
    """A no-op if the cluster is up and whole."""
    return notebook.ok(UP, 120)


def nothing_runs_on_nodes(slurm_lab):
    for node in slurm_lab.nodes:
        assert slurm_lab.lab[node].wait_until_idle(LIMIT_SECONDS, ignore=DAEMONS) == []


def test_two_nodes_train_as_one_process_does(notebook, slurm_lab):
    said = up(notebook)
    assert re.search(r"Slurm job \d+ is submitted", said)
    assert re.search(r"node 1 · b\n", said)
    check_training(notebook, "slurm")
    details = slurm_lab.run(["scontrol", "show", "job", slurm_lab.jobs()[0].split()[0]]).stdout
    assert "Requeue=0" in details and "NumNodes=2" in details and "NumTasks=2" in details and "TimeLimit=00:10:00" in details


def test_the_cluster_is_a_target_by_its_name_as_long_as_it_is_up(notebook, slurm_lab):
    up(notebook)
    job = slurm_lab.jobs()
    assert notebook.ok("%%ranks --target local --nodes 1 --devices 1\nrank", 60).count("Out:") == 1
    assert notebook.ok("%%ranks --target slurm --nodes 2 --devices 1\nimport socket\nsocket.gethostname()", 60).count("Out:") == 2
    assert slurm_lab.jobs() == job  # leaving it did not end it


def test_sbatch_refuses_in_its_own_words_and_nothing_is_left(notebook, slurm_lab):
    before = slurm_lab.jobs()
    result = notebook.run("%gpulayer up --target slurm --name other --partition nope", 30)
    assert "Slurm refused: sbatch: error: invalid partition specified: nope" in result.error
    result = notebook.run("%gpulayer up --target slurm --name other --no-such-option", 30)
    assert "no-such-option" in result.error and "Slurm refused" in result.error
    assert slurm_lab.jobs() == before


def test_a_drained_node_keeps_its_ranks_and_a_waiting_job_says_why(notebook, slurm_lab):
    up(notebook)
    slurm_lab.run(["scontrol", "update", "nodename=b", "state=drain", "reason=test"])
    check_training(notebook, "slurm")
    result = notebook.run("%gpulayer up --target slurm --name other --nodes 2 --devices 2 --max-wait 4", 40)
    assert re.search(r"Slurm job \d+ is PENDING \(\S.*\)", result.text), result.text
    assert re.search(r"0 of 2 workers joined in 4 s; Slurm job \d+ is PENDING \(", result.error), result.error
    assert [line.split()[1] for line in slurm_lab.jobs()] == ["RUNNING"]  # the waiting one was cancelled
    waiting = notebook.send("%gpulayer up --target slurm --name other --nodes 2 --devices 2")
    deadline = time.monotonic() + 20
    while len(slurm_lab.jobs()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    notebook.manager.interrupt_kernel()
    assert "KeyboardInterrupt" in notebook.read(waiting, 20).error
    assert [line.split()[1] for line in slurm_lab.jobs()] == ["RUNNING"]


@pytest.mark.parametrize("fault", ["scancel", "node down"])
def test_a_job_that_ends_under_a_run_is_told_in_time_and_the_next_one_works(notebook, slurm_lab, home, fault):
    up(notebook)
    notebook.ok("%%ranks --target slurm --nodes 2 --devices 2\nrank", 60)
    job = slurm_lab.jobs()[0].split()[0]
    cell = send_training(notebook, ENDLESS, home)
    began = time.monotonic()
    if fault == "scancel":
        slurm_lab.run(["scancel", job])
        cause = "CANCELLED"
    else:
        slurm_lab.run(["scontrol", "update", "nodename=b", "state=down", "reason=test"])
        cause = "NODE_FAIL"
    result = notebook.read(cell, 30)
    took = time.monotonic() - began
    assert result.error is not None and took < LIMIT_SECONDS, f"{took:.1f} s: {result.error}"
    assert re.search(r"worker (a|b)", result.error), result.error
    assert f"Slurm job {job} has ended: {cause}" in result.error, result.error
    nothing_runs_on_nodes(slurm_lab)
    assert slurm_lab.jobs() == []  # not started again by Slurm either
    result = notebook.run("%%ranks --target slurm\nrank", 30)
    assert f"Slurm job {job} has ended" in result.error and "%gpulayer up --target slurm" in result.error
    slurm_lab.resume_nodes()
    up(notebook)
    check_training(notebook, "slurm")


def test_down_cancels_the_job(notebook, slurm_lab):
    up(notebook)
    assert slurm_lab.jobs()
    notebook.ok("%gpulayer down", 30)
    assert slurm_lab.jobs() == []
    nothing_runs_on_nodes(slurm_lab)


def test_an_exported_batch_file_trains_as_its_cell_did(notebook, slurm_lab):
    """sbatch, srun and torchrun on two nodes; nothing of ours runs there."""
    notebook.ok("%gpulayer down", 30)
    folder = slurm_lab.lab.folder / "exported"
    folder.mkdir()
    notebook.ok(f"%%gpulayer --epochs 3 --nodes 2 --devices 2 --accelerator cpu --target local\n{TRAIN}", 60)
    assert f"sbatch {folder}/train.sbatch" in notebook.ok(f"%gpulayer export --to slurm {folder}/train.py")
    path = f"PATH={Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    batch = ["env", path, "sbatch", "--wait", "--partition=main", f"--output={folder}/log", f"{folder}/train.sbatch"]
    done = slurm_lab.run(batch, check=False, timeout=120)
    log = (folder / "log").read_text() if (folder / "log").exists() else ""
    assert done.returncode == 0, done.stdout + done.stderr + log
    assert log.count("epoch") >= 3, log
    code = f"there = torch.load({str(folder / 'train.weights.pt')!r}, weights_only=True)\n"
    assert (
        notebook.ok(code + "all(torch.equal(there[name], value) for name, value in model.state_dict().items())").strip() == "True"
    )
    nothing_runs_on_nodes(slurm_lab)


def test_a_kernel_that_is_killed_leaves_no_job(notebook, slurm_lab):
    up(notebook)
    notebook.manager.signal_kernel(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while slurm_lab.jobs():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    nothing_runs_on_nodes(slurm_lab)
    assert slurm_lab.lab["head"].wait_until_idle(LIMIT_SECONDS, ignore=DAEMONS) == []
