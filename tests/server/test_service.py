"""The service against real ranks: what a notebook's cluster does is seen, stopped and mended from another process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulayer_nb.client.embedded import EmbeddedCluster
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.server.refusals import NotNowError, NotThereError
from gpulayer_nb.server.service import Service

TRAINING = """
import time, torch
import gpulayer_nb as glt
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self): return 6400
    def __getitem__(self, i):
        time.sleep(0.001)
        return torch.full((4,), i / 6400), torch.ones(1)

class Net(glt.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
    def training_step(self, batch, batch_idx):
        x, y = batch
        if batch_idx == 0:
            print("hello from a rank")
        loss = nn.functional.mse_loss(self.layer(x), y)
        self.log("loss", loss, prog_bar=True)
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

try:
    glt.Trainer(max_epochs=1000, devices=2, accelerator="cpu").fit(Net(), DataLoader(Slow(), batch_size=16))
except KeyboardInterrupt as stopped:
    open("stopped", "w").close()
input()
"""


def eventually(what: Callable[[], Any], seconds: float = 30.0) -> Any:
    """The first true value of `what`."""
    deadline = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s"
        time.sleep(0.1)
    return value


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.close()


@pytest.fixture
def training(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A script that trains on two ranks until it is stopped; its standard input ends it."""
    script = tmp_path / "training.py"
    script.write_text(TRAINING)
    process = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=tmp_path
    )
    yield process
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(30)
    finally:
        process.kill()


def only_cluster(service: Service) -> dict[str, Any]:
    clusters = service.look().clusters
    assert len(clusters) == 1, clusters
    return clusters[0]


@pytest.mark.slow
@pytest.mark.usefixtures("training")
def test_a_run_of_another_process_is_seen_and_stopped(service: Service, tmp_path: Path) -> None:
    def running() -> Any:
        snapshot = service.look()
        rows = list(snapshot.ranks.values())
        return rows and all(row["state"] == "running" and row["step"] and row["cpu"] is not None for row in rows) and snapshot

    before = set(threading.enumerate())  # other tests of this process have theirs
    snapshot = eventually(running, 90)
    rows = sorted(snapshot.ranks.values(), key=lambda row: row["rank"])
    assert [(row["rank"], row["device"]) for row in rows] == [(0, "cpu"), (1, "cpu")]
    assert all(row["memory"] > 10 and row["machine"] > 1000 and row["rates"] for row in rows)
    (run,) = snapshot.runs
    assert (run["state"], run["metric"], run["devices"]) == ("running", "loss", 2)
    assert snapshot.clusters[0]["run"] == run["id"]
    eventually(lambda: len(service.look().runs[0]["curve"]) > 5)
    restarted = Service()  # a server that has just been started finds what runs, and how it has gone so far
    assert [row["id"] for row in restarted.look().runs] == [run["id"]]
    eventually(lambda: [row["state"] for row in restarted.look().ranks.values()] == ["running", "running"])
    assert len(restarted.look().runs[0]["curve"]) > 5
    restarted.close()

    watched = service.look().clusters[0]
    worker = watched["workers"][0]["key"]
    assert eventually(lambda: "hello from a rank" in service.engine_log(watched["name"], worker, 1))
    with pytest.raises(NotNowError, match=r"Run .* is on\. Next: stop it"):
        service.restart_engine(watched["name"], worker, 0)
    assert "ank" in service.report(run["id"])

    assert service.stop_run(run["id"]) == 1
    eventually((tmp_path / "stopped").exists)
    assert eventually(lambda: service.look().runs[0]["state"] == "stopped")
    assert service.figure(run["id"]).startswith(b"\x89PNG")
    with pytest.raises(NotNowError, match="is over: stopped"):
        service.stop_run(run["id"])

    service.look_away()
    eventually(
        lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("gpulayer") and thread not in before]
    )


@pytest.mark.slow
def test_a_killed_rank_is_dead_until_it_is_restarted_and_a_cluster_ends_when_told(service: Service) -> None:
    cluster = EmbeddedCluster()
    try:
        cluster.ensure(Topology(1, 2), "cpu", lambda text: None)
        before = eventually(lambda: _idle(service, 2))
        name, worker = only_cluster(service)["name"], only_cluster(service)["workers"][0]["key"]
        first = min(before.values(), key=lambda row: row["slot"])
        os.kill(first["pid"], signal.SIGKILL)
        dead = eventually(lambda: next((row for row in service.look().ranks.values() if row["state"] == "dead"), None))
        assert (dead["slot"], dead["detail"][:17]) == (0, "Ended by signal 9")
        service.restart_engine(name, worker, 0)
        after = eventually(lambda: _idle(service, 2))
        assert min(after.values(), key=lambda row: row["slot"])["pid"] != first["pid"]
        with pytest.raises(NotThereError, match="has no engine 7"):
            service.restart_engine(name, worker, 7)
        with pytest.raises(NotNowError, match="end the cluster"):
            service.end_worker(name, worker)
        service.stop_cluster(name)
        assert service.look().clusters == []
        with pytest.raises(NotThereError, match="There is no cluster"):
            service.stop_cluster(name)
    finally:
        cluster.end()


def _idle(service: Service, number: int) -> Any:
    ranks = service.look().ranks
    return len(ranks) == number and all(row["state"] == "idle" and row["cpu"] is not None for row in ranks.values()) and ranks


@pytest.mark.slow
def test_engines_of_ipyparallel_are_seen_at_work(service: Service, tmp_path: Path) -> None:
    import ipyparallel

    with ipyparallel.Cluster(n=1, log_level=40) as client:
        eventually(lambda: [row["state"] for row in service.look().ranks.values()] == ["idle"])
        busy = client[:].apply_async(time.sleep, 2)
        eventually(lambda: [row["state"] for row in service.look().ranks.values()] == ["running"], 5)
        busy.get(timeout=20)
        eventually(lambda: [row["state"] for row in service.look().ranks.values()] == ["idle"], 5)
        (name,) = [cluster["name"] for cluster in service.look().clusters]
        with pytest.raises(NotNowError, match="was started by ipyparallel"):
            service.stop_cluster(name)


@pytest.mark.slow
def test_a_cluster_started_here_offers_its_devices_by_name_and_ends_when_told(service: Service) -> None:
    name = service.start_cluster(2, 1)
    assert name == "panel"

    def offered() -> Any:
        found = only_cluster(service)
        return [worker["free"] for worker in found["workers"]] == [1, 1] and found

    cluster = eventually(offered, 60)
    assert (cluster["kind"], cluster["ours"], [worker["name"] for worker in cluster["workers"]]) == (
        "open",
        True,
        ["local-0", "local-1"],
    )
    assert cluster["join"].endswith("panel/security/ipcontroller-engine.json")
    began = time.monotonic()
    service.stop_cluster(name)
    assert time.monotonic() - began < 10
    assert service.look().clusters == []


@pytest.mark.slow
def test_a_cluster_started_here_ends_with_the_server_however_it_ends(tmp_path: Path) -> None:
    script = "from gpulayer_nb.server.service import Service; Service().start_cluster(1, 1); print('up', flush=True); input()"
    server = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert server.stdout.readline() == "up\n"
    looking = Service()
    assert [cluster.name for cluster in looking.clusters()] == ["panel"]
    server.kill()
    server.wait(5)
    eventually(lambda: looking.clusters() == [], 15)
