"""The controller's settings: what keeps strangers out, and who gives up whom first."""

import inspect
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import zmq
from ipyparallel.controller import heartmonitor
from ipyparallel.controller.app import IPController
from traitlets import import_item
from waiting import wait_until

from gpulayer_nb import process
from gpulayer_nb.errors import UsageError
from gpulayer_nb.link.ports import ephemeral_range
from gpulayer_nb.process import children_of
from gpulayer_nb.records.cluster_folder import ClusterFolder
from gpulayer_nb.records.connection_file import read_if_whole
from gpulayer_nb.worker import controller, lease
from gpulayer_nb.worker.public_controller import PublicController, check_name, check_ports, ranges
from gpulayer_nb.worker.quiet_controller import ProcessQueue, PromptHeartMonitor, QuietController


def test_away_from_loopback_everything_is_encrypted():
    curve = "--IPController.enable_curve=True"
    assert [curve in controller.arguments("/f", ip) for ip in ("127.0.0.1", "::1", "10.0.0.1", "0.0.0.0", "head")] == [
        False, False, True, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize("joined", [True, False])
def test_engines_end_before_the_hub_gives_them_up(joined):
    given = dict(option.split("=") for option in controller.arguments("/f", "127.0.0.1", joined=joined) if "=" in option)
    period = int(given["--HeartMonitor.period"]) / 1000
    hub = period * (int(given["--HeartMonitor.max_heartmonitor_misses"]) + 1)
    assert lease.SECONDS + 2 * period <= hub <= 8.0


def test_the_hub_gets_no_copy_of_what_the_control_queue_carries():
    assert import_item(QuietController.mq_class.default_value) is ProcessQueue
    assert "Process" in ProcessQueue.__name__  # or ipyparallel would run its other schedulers in threads
    assert "b'incontrol'" in inspect.getsource(IPController.init_schedulers)
    for topic, monitors in (b"incontrol", []), (b"in", ["inproc://hub"]):
        queue = ProcessQueue(zmq.ROUTER, zmq.ROUTER, zmq.PUB, topic, b"out")
        queue.connect_mon("inproc://hub")
        assert queue._mon_connects == monitors


def test_an_engine_is_registered_with_the_first_heartbeat_it_answers(monkeypatch):
    assert "heart_monitor = HeartMonitor(" in inspect.getsource(heartmonitor._setup_heartmonitor)
    told = []
    monkeypatch.setattr(
        PromptHeartMonitor, "handle_new_hearts", lambda self, hearts: (told.append(hearts), self.hearts.update(hearts))
    )
    monitor = PromptHeartMonitor(lifetime=2.5, last_ping=2.0)
    monitor.handle_pong([b"of long ago", b"1.0"])
    assert told == []
    for _ in range(2):
        monitor.handle_pong([b"engine", b"2.5"])
    assert told == [{b"engine"}]


def test_ports_are_a_range_wide_enough_or_its_first():
    assert [check_ports("10101"), check_ports("10101-10130")] == ["10101-10118", "10101-10130"]
    for text in ("10101-10105", "x", "70000", "10-"):
        with pytest.raises(UsageError, match=f"--ports is {text}"):
            check_ports(text)


def test_a_list_of_ports_reads_as_ranges():
    assert ranges([10103, 10101, 10102, 45000]) == "10101-10103, 45000"


@pytest.mark.parametrize("name", ["", "a b", "../x", "a:b", ".hidden"])
def test_a_name_that_cannot_be_part_of_a_path_is_refused(name):
    with pytest.raises(UsageError, match="--name is"):
        check_name(name)


def test_a_controller_that_is_refused_for_its_name_leaves_the_other_of_this_name_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    other = ClusterFolder.create("lab")
    other.add_owner(os.getpid(), process.start_ticks(os.getpid()))
    refused = PublicController("lab", "127.0.0.1")
    with pytest.raises(UsageError, match="A cluster named lab is running"):
        refused.start()
    refused.end()
    assert other.owners() is not None
    shutil.rmtree(other.blobs)


def test_a_controller_ends_when_one_of_its_processes_does(tmp_path):
    command = [sys.executable, "-m", "gpulayer_nb.worker.controller", f"--folder={tmp_path}", f"--parent={os.getpid()}"]
    with (tmp_path / "log").open("wb") as log:
        running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until(lambda: len(children_of(running.pid)) >= 6)  # schedulers, queues, the heart monitor
        time.sleep(1.0)
        os.kill(children_of(running.pid)[-1], signal.SIGKILL)
        assert running.wait(10) == 1
        assert "has ended, with exit code -9" in (tmp_path / "log").read_text()
    finally:
        running.kill()
        running.wait()


@pytest.mark.parametrize("joined", [[], ["--joined"]])
def test_a_controller_that_is_given_no_ports_takes_neighbours(tmp_path, joined):
    command = [sys.executable, "-m", "gpulayer_nb.worker.controller", f"--folder={tmp_path}", f"--parent={os.getpid()}", *joined]
    running = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        file = tmp_path / "security" / "ipcontroller-client.json"
        wait_until(lambda: read_if_whole(file) is not None)
        ports = [value for value in read_if_whole(file).values() if type(value) is int]
        low, _ = ephemeral_range()
        assert len(ports) >= 6 and min(ports) >= 20_000 and max(ports) < low and max(ports) - min(ports) < controller.PORTS
    finally:
        running.kill()
        running.wait()
