"""A launch whose agents are started by a worker's supervisor: the embedded cluster has a real one."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from gpulayer_nb.client import worker_agents
from gpulayer_nb.client.embedded import EmbeddedCluster
from gpulayer_nb.client.launch_driver import LaunchDriver
from gpulayer_nb.client.script_bundle import ScriptBundle, collect
from gpulayer_nb.client.worker_agents import AgentWorker, WorkerAgentPool
from gpulayer_nb.link.ports import HeldPort
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.process import children_of, start_ticks
from gpulayer_nb.records import wire
from gpulayer_nb.records.agent import AgentOrder
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.run_folder import RunFolder
from gpulayer_nb.worker import agents as worker_side

pytestmark = pytest.mark.slow

SCRIPT = """
import os, sys, time
from neighbour import greeting
print(greeting, os.environ["RANK"], os.environ["GROUP_RANK"], os.environ["LOCAL_RANK"], flush=True)
if "wait" in sys.argv: time.sleep(300)
if os.environ["RANK"] == "2" and "raise" in sys.argv: raise ValueError("bad sample")
"""


class NotShared(ScriptBundle):
    """A bundle whose files the worker does not see where they are."""

    def read(self, digest: str) -> bytes:
        return ScriptBundle(Path(self.root).parent / "here", self.script, self.files).read(digest)


@pytest.fixture(scope="module")
def cluster():
    made = EmbeddedCluster()
    made.ensure(Topology(1, 1), "cpu", lambda text: None)
    yield made
    made.end()


@pytest.fixture
def script(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "neighbour.py").write_text("greeting = 'hello'")
    path = tmp_path / "here" / "script.py"
    path.write_text(SCRIPT)
    return path


def launch(cluster, script, arguments, run_id, tmp_path, stops=lambda history: 0):
    deadline = time.monotonic() + 60
    while not (supervisors := [uuid for uuid in cluster.connection.engines() if wire.worker_of(uuid)]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    workers = [AgentWorker(supervisors[0], name, "127.0.0.1", "lo") for name in ("a", "b")]
    pool = WorkerAgentPool(cluster.connection, workers, run_id)
    history, folder, topology = RunHistory(), RunFolder.create(run_id, tmp_path / "root"), Topology(2, 2)
    sites = pool.prepare(script, script.parent, 2)
    orders = [
        AgentOrder(
            run_id=run_id, script=site.script, arguments=tuple(arguments), folder=site.folder, nodes=2, devices=2, node_rank=node,
            master_addr=site.address, master_port=sites[0].port, interface="lo",
        )
        for node, site in enumerate(sites)
    ]  # fmt: skip
    try:
        outcome = LaunchDriver(pool, topology, history, folder, refresh=lambda: None, stops=lambda: stops(history)).run(
            orders, sites
        )
    finally:
        pool.close()
    return sites, history, outcome


def test_a_script_that_the_worker_cannot_see_is_sent_and_runs(cluster, script, tmp_path, monkeypatch):
    monkeypatch.setattr(worker_agents, "collect", lambda path: NotShared(tmp_path / "nowhere", "script.py", collect(path).files))
    sites, history, outcome = launch(cluster, script, [], "20260101-000000-sent", tmp_path)
    assert Path(sites[0].script).parent.name == "20260101-000000-sent"
    assert outcome.exit_codes == {0: 0, 1: 0, 2: 0, 3: 0}
    assert history.output.text().splitlines() == [
        "[rank 0] hello 0 0 0", "[rank 1] hello 1 0 1", "[rank 2] hello 2 1 0", "[rank 3] hello 3 1 1",
    ]  # fmt: skip


def test_a_script_that_the_worker_sees_runs_in_its_place_and_its_failure_comes_back(cluster, script, tmp_path):
    sites, _, outcome = launch(cluster, script, ["raise"], "20260101-000000-seen", tmp_path)
    assert sites[0].script == str(script)
    (end,) = [end for end in outcome.bad_ends if not end.is_secondary]
    assert (end.place.rank, end.worker, end.shell_code, end.error.message) == (2, "b", 1, "bad sample")


def test_an_agent_killed_on_a_worker_ends_the_others_and_leaves_nothing(cluster, script, tmp_path):
    supervisor = cluster.state().pid
    killed = []

    def kill_an_agent(history):
        if not killed and len(history.output.ranks) == 4:
            below = children_of(supervisor)
            agents = [pid for pid in below if b"gpulayer_nb.engine.torchrun" in Path(f"/proc/{pid}/cmdline").read_bytes()]
            killed.extend([time.monotonic(), *[pid for pid in below if b"agent" in Path(f"/proc/{pid}/cmdline").read_bytes()]])
            os.kill(agents[0], signal.SIGKILL)
        return 0

    _, _, outcome = launch(cluster, script, ["wait"], "20260101-000000-kill", tmp_path, kill_an_agent)
    assert time.monotonic() - killed[0] < 10
    assert len(outcome.agent_logs) == 2
    deadline = time.monotonic() + 5
    while [pid for pid in killed[1:] if start_ticks(pid) is not None]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_agents_end_when_their_client_is_silent(script, tmp_path, monkeypatch):
    monkeypatch.setattr(worker_side, "SILENT_SECONDS", 1.0)
    agents, port = worker_side.Agents(tmp_path / "agents"), HeldPort("127.0.0.1")
    order = AgentOrder(
        run_id="run", script=str(script), arguments=("wait",), folder=str(script.parent), nodes=1, devices=2, node_rank=0,
        master_addr="127.0.0.1", master_port=port.number,
    )  # fmt: skip
    pid = agents.answer(wire.AGENT_START, {"order": order.to_json()})["pid"]
    offsets, said, deadline = {}, [], time.monotonic() + 60
    while len(said) < 2:
        assert time.monotonic() < deadline
        news = agents.answer(wire.AGENT_NEWS, {"run_id": "run", "offsets": {"0": offsets}})["news"]["0"]
        offsets, said = news["offsets"], said + news["output"]
        time.sleep(0.05)
    below = [pid, *children_of(pid)]
    assert len(below) >= 4
    deadline = time.monotonic() + 8
    while [one for one in below if start_ticks(one) is not None]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    port.close()
