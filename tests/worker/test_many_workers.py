"""128 workers on one controller join, are listed and planned for within seconds. They have no engines; all else is real.

Not among the slow tests, which share the machine with others in CI: the seconds are part of the promise.
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpulayer_nb.client.remote import RemoteCluster
from gpulayer_nb.errors import ClusterError, PlanError
from gpulayer_nb.plan.placement import place
from gpulayer_nb.plan.topology import Topology

FAKES = Path(__file__).parents[1] / "support" / "fake_workers.py"
COUNT = 128
LIMIT_SECONDS = 10.0


def listed(client_file):
    command = [sys.executable, "-m", "gpulayer_nb", "worker", "list", "--target", str(client_file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()


def test_128_workers_join_are_listed_and_planned_for_within_ten_seconds(controller):
    assert listed(controller.client_file) == [
        f"No worker has joined {controller.client_file}. Next: `gpulayer worker start` on each machine that is to run ranks."
    ]
    started = time.monotonic()
    controller.processes.run("fakes", [sys.executable, str(FAKES), str(controller.engine_file), str(COUNT)])
    controller.processes.wait_for("fakes", "ready")
    cluster = RemoteCluster("many", controller.client_file)
    try:
        while len(workers := cluster.workers()) < COUNT:  # the hub takes an engine in at its next heartbeat
            assert time.monotonic() - started < LIMIT_SECONDS, len(workers)
            time.sleep(0.1)
        placement = place(Topology(COUNT, 8), "auto", workers)
        assert [node.worker.name for node in placement.nodes] == [f"w{number}" for number in range(COUNT)]
        assert [row.split()[0] for row in listed(controller.client_file)[1:]] == [f"w{number}" for number in range(COUNT)]
        assert time.monotonic() - started < LIMIT_SECONDS
        with pytest.raises(PlanError, match=r"129 nodes × 8 devices = 1032 ranks on cpu asked, but 128 workers of 128"):
            cluster.ensure(Topology(COUNT + 1, 8), "auto", say=lambda text: None)
    finally:
        cluster.end()


def test_a_cluster_whose_controller_has_ended_is_said_to_be_that_at_once(controller):
    cluster = RemoteCluster("many", controller.client_file)
    copy = controller.processes.folder / "copy.json"  # of a file on another machine, say
    copy.write_bytes(controller.client_file.read_bytes())
    left = RemoteCluster("left", copy)
    controller.processes.end()
    started = time.monotonic()
    with pytest.raises(ClusterError, match=r"Cluster left: no controller answers at 127\.0\.0\.1:\d+ \(Connection refused\)"):
        left.workers()
    assert time.monotonic() - started < 1.0
    cluster.end()
