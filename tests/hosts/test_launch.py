"""A script on two machines that do not share the folder it lies in: sent, run, failed, cut off, abandoned."""

import os
import signal
import time

import pytest
from lab_cluster import GPULAYER, LabCluster

pytestmark = pytest.mark.multihost

SCRIPT = """
import os, socket, sys, time
import torch, torch.distributed as dist
from neighbour import greeting
dist.init_process_group("gloo")
dist.all_reduce(total := torch.tensor([float(dist.get_rank())]))
print(greeting, socket.gethostname(), os.environ["RANK"], total.item(), os.environ["GLOO_SOCKET_IFNAME"], flush=True)
while "work" in sys.argv:
    dist.barrier(); time.sleep(0.05)
if "raise" in sys.argv and os.environ["RANK"] == "2": raise ValueError("bad sample 17")
dist.destroy_process_group()
"""
SET_UP = """
import pathlib, sys
job = pathlib.Path("/tmp/job"); job.mkdir(exist_ok=True)
(job / "script.py").write_text(sys.argv[1]); (job / "neighbour.py").write_text("greeting = 'hello'")
"""


@pytest.fixture(scope="module")
def cluster(lab):
    made = LabCluster(lab)
    made.start_controller()
    made.start_workers("a", "b")
    lab["head"].run(["python", "-c", SET_UP, SCRIPT])  # /tmp is head's own
    yield made
    made.end()


def command(cluster, *words):
    shape = ["--nodes", "2", "--devices", "2"]
    return [*GPULAYER, "launch", "/tmp/job/script.py", *shape, "--target", str(cluster.client_file), *words]


def begin(cluster, log):
    """A launch that works on all ranks until something breaks."""
    started = cluster.lab["head"].start(command(cluster, "--", "work"), log=log)
    deadline = time.monotonic() + 60
    while log.read_text().count("hello") < 1 or len(ranks(cluster, "a")) < 2 or len(ranks(cluster, "b")) < 2:
        assert started.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    time.sleep(1.0)
    return started


def ranks(cluster, host):
    return [process for process in cluster.lab[host].processes() if "script.py" in process.command]


def gone_within(cluster, seconds):
    deadline = time.monotonic() + seconds
    while left := [*ranks(cluster, "a"), *ranks(cluster, "b")]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_the_script_and_its_neighbours_are_sent_and_ranks_talk_over_the_network(cluster):
    done = cluster.lab["head"].run(command(cluster), timeout=90)
    assert sorted(done.stdout.splitlines()) == [f"[rank {rank}] hello {'ab'[rank // 2]} {rank} 6.0 eth0" for rank in range(4)]
    gone_within(cluster, 1)


def test_a_rank_that_raises_is_the_first_cause_and_the_others_end(cluster):
    done = cluster.lab["head"].run(command(cluster, "--", "raise"), timeout=90, check=False)
    assert done.returncode == 1, done.stderr
    assert "ValueError: bad sample 17 — rank 2 (node 1, local rank 0, worker b), in script.py line " in done.stderr
    gone_within(cluster, 1)


def test_a_worker_that_is_cut_off_ends_the_launch_on_both_sides(cluster, tmp_path):
    started = begin(cluster, tmp_path / "launch.log")
    cut = time.monotonic()
    cluster.lab["b"].port.pull_cable()
    try:
        assert started.wait(25) == 1
        took = time.monotonic() - cut
        said = (tmp_path / "launch.log").read_text()
        assert "worker b" in said.lower(), said
        assert took < 20, f"{took:.1f} s: {said}"
        gone_within(cluster, 12)
    finally:
        cluster.lab.mend()
        cluster.revive(2)


def test_agents_end_when_whoever_launched_them_is_killed(cluster, tmp_path):
    started = begin(cluster, tmp_path / "launch.log")
    for process in cluster.lab["head"].processes():
        if "gpulayer_nb launch" in process.command:
            os.kill(process.pid, signal.SIGKILL)
    started.wait(5)
    gone_within(cluster, 12)
