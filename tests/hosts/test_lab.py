"""The lab is what it claims to be: machines of their own, a network whose faults are real, and nothing left afterwards."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from hostlab import Lab, notebook_on

pytestmark = pytest.mark.multihost

LISTEN = """
import socket, sys
server = socket.socket(); server.bind(("", int(sys.argv[1]))); server.listen(); print("ready", flush=True)
while True:
    connection, _ = server.accept()
    while data := connection.recv(1 << 16): pass
    connection.sendall(b"all of it"); connection.close()
"""
COUNT_INTERRUPTS = """
import signal, time
numbers = iter(range(1, 100))
signal.signal(signal.SIGINT, lambda *_: print(next(numbers), flush=True))
print("ready", flush=True)
while True: time.sleep(1)
"""
CONNECT = """
import socket, sys, time
started = time.monotonic()
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3]))
connection.sendall(bytes(int(sys.argv[4]))); connection.shutdown(socket.SHUT_WR); connection.settimeout(30)
assert connection.recv(100) == b"all of it"
print(time.monotonic() - started)
"""


def listen(host, port):
    log = host.folder / f"listen-{port}.log"
    host.start([sys.executable, "-c", LISTEN, str(port)], log=log)
    deadline = time.monotonic() + 10
    while "ready" not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def connect(host, to, port, *, timeout=2.0, size=1):
    """Seconds that it took, or None and the error."""
    done = host.run([sys.executable, "-c", CONNECT, to, str(port), str(timeout), str(size)], check=False, timeout=60)
    return (float(done.stdout), "") if done.returncode == 0 else (None, done.stderr.splitlines()[-1])


def pings(host, to):
    return host.run(["ping", "-c1", "-W1", to], check=False, timeout=10).returncode == 0


def link_state(host):
    return json.loads(host.run(["ip", "-j", "link", "show", "eth0"]).stdout)[0]["operstate"]


def test_hosts_reach_each_other_by_name_and_nothing_else(lab):
    for host in lab:
        assert host.run(["hostname"]).stdout.strip() == host.name
        for other in lab:
            assert pings(host, other.name)
        assert "default" not in host.run(["ip", "route"]).stdout


def test_a_host_sees_its_own_processes_and_its_own_temporary_folders(lab):
    a, b = lab["a"], lab["b"]
    sleeper = a.start(["sleep", "321"])
    try:
        deadline = time.monotonic() + 5
        while not [process for process in a.processes() if "321" in process.command]:
            assert time.monotonic() < deadline
        assert "sleep 321" in a.run(["ps", "ax"]).stdout
        assert "sleep 321" not in b.run(["ps", "ax"]).stdout
        for folder in ("/tmp", "/dev/shm", "/run"):
            a.run(["touch", f"{folder}/of-a"])
            assert b.run(["ls", f"{folder}/of-a"], check=False).returncode != 0
            assert not Path(folder, "of-a").exists()
    finally:
        sleeper.terminate()
    assert sleeper.wait(5) == -signal.SIGTERM
    assert a.wait_until_idle(5) == []


def test_our_python_runs_on_a_host_with_the_tree_under_test(lab):
    import gpulayer_nb

    found = lab["a"].run([sys.executable, "-c", "import gpulayer_nb, sys; print(gpulayer_nb.__file__); print(sys.prefix)"]).stdout
    assert found.splitlines() == [gpulayer_nb.__file__, sys.prefix]


def test_a_process_ends_with_its_killed_starter_and_a_signal_arrives_once(lab):
    a = lab["a"]
    log = a.folder / "count.log"
    running = a.start([sys.executable, "-c", COUNT_INTERRUPTS], log=log)
    while not log.exists() or "ready" not in log.read_text():
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGINT)
    time.sleep(0.3)
    assert log.read_text().split() == ["ready", "1"]
    running.kill()
    running.wait(5)
    assert a.wait_until_idle(5) == []


def test_a_pulled_cable_takes_the_carrier_and_a_black_hole_does_not(mended_lab):
    a, b = mended_lab["a"], mended_lab["b"]
    b.port.pull_cable()
    assert not pings(a, "b")
    assert link_state(b) == "DOWN"
    b.port.plug_cable()
    assert pings(a, "b")
    b.port.swallow()
    assert not pings(a, "b") and not pings(b, "a")
    assert link_state(b) == "UP"
    assert pings(a, "c")
    b.port.forward()
    assert pings(a, "b")


def test_closed_ports_stay_silent_or_refuse_and_others_are_open(mended_lab):
    a, b = mended_lab["a"], mended_lab["b"]
    for port in (7001, 8001):
        listen(b, port)
    b.port.close_ports(7000, 7999)
    assert "timed out" in connect(a, "b", 7001, timeout=1.0)[1]
    assert connect(a, "b", 8001)[0] is not None
    b.port.mend()
    assert connect(a, "b", 7001)[0] is not None
    b.port.close_ports(7000, 7999, silently=False)
    assert "refused" in connect(a, "b", 7001)[1]


def test_a_limited_line_takes_the_time_it_should_and_a_lossy_one_still_delivers(mended_lab):
    a, b = mended_lab["a"], mended_lab["b"]
    listen(b, 9001)
    size = 2_000_000
    free, _ = connect(a, "b", 9001, size=size)
    a.port.limit("20mbit")
    limited, _ = connect(a, "b", 9001, size=size)
    at_least = (size - 64_000) * 8 / 20e6  # the burst is free
    assert limited >= 0.9 * at_least > 3 * free
    a.port.mend()
    b.port.lose(20)
    lost = int(a.run(["ping", "-c100", "-i0.01", "-W1", "b"], check=False).stdout.split("packet loss")[0].split()[-1].rstrip("%"))
    assert 5 <= lost <= 40
    assert connect(a, "b", 9001, size=100_000, timeout=10)[0] is not None


def test_addresses_and_names_can_be_set(mended_lab):
    a = mended_lab["a"]
    a.port.add_address("fd77::11/64")
    mended_lab["b"].port.add_address("fd77::12/64")
    assert a.run(["ping", "-6", "-c1", "-W2", "fd77::12"]).returncode == 0
    before = a.hosts_file.read_text()
    a.hosts_file.write_text("127.0.0.1 localhost\n127.0.1.1 a\n")
    assert "127.0.1.1" in a.run(["getent", "hosts", "a"]).stdout
    a.hosts_file.write_text(before)


def test_a_host_that_loses_power_is_gone_at_once_and_boots_again(mended_lab):
    a, c = mended_lab["a"], mended_lab["c"]
    c.start(["sleep", "322"])
    c.power_off()
    assert not [process for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"] == ["sleep", "322"]]
    assert not pings(a, "c")
    mended_lab.boot("c")
    assert pings(a, "c")


def test_a_notebooks_kernel_runs_on_a_host_and_can_be_interrupted(lab):
    notebook = notebook_on(lab["head"])
    try:
        assert notebook.ok("import socket, os; print(socket.gethostname(), os.getcwd())").split() == ["head", "/tmp"]
        waiting = notebook.send("import time\ntime.sleep(30)")
        time.sleep(0.5)
        notebook.manager.interrupt_kernel()
        assert "KeyboardInterrupt" in notebook.read(waiting, limit_seconds=10).error
    finally:
        notebook.end()
    assert lab["head"].wait_until_idle(10) == []


def test_nothing_is_left_of_a_lab_whose_test_run_was_killed(tmp_path):
    program = (
        "import sys, time; sys.path[:0] = sys.argv[1:2]\n"
        "from hostlab import Lab\n"
        "lab = Lab(); lab.up(); lab['a'].start(['sleep', '323']); lab['b'].start(['sleep', '323'])\n"
        "print(lab.folder, flush=True); time.sleep(100)\n"
    )
    support = str(Path(__file__).parents[1] / "support")
    running = subprocess.Popen([sys.executable, "-c", program, support], stdout=subprocess.PIPE, text=True)
    folder = running.stdout.readline().strip()
    time.sleep(0.3)
    assert len([1 for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"] == ["sleep", "323"]]) == 2
    running.kill()
    running.wait(5)
    deadline = time.monotonic() + 5
    while left := [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if folder in " ".join(process.info["cmdline"] or ()) or process.info["cmdline"] == ["sleep", "323"]
    ]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    shutil.rmtree(folder)  # a folder is all that a killed run leaves


def test_two_labs_do_not_know_each_other(lab):
    with Lab({"head": "10.77.0.1", "d": "10.77.0.11"}) as other:
        assert pings(other["head"], "d")
        assert other["d"].run(["hostname"]).stdout.strip() == "d"
        assert lab["a"].address == other["d"].address
        assert pings(lab["head"], "a")
    assert not other.folder.exists()
