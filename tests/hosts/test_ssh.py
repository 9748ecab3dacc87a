"""`%gpulayer up --target ssh` with real sshd on two hosts."""

import re
import signal
import time

import pytest
from at_work import send_training
from hostlab import notebook_on
from hostlab.host import REPOSITORY
from hostlab.training import ENDLESS, SETUP, check_training

pytestmark = pytest.mark.ssh
LIMIT_SECONDS = 10.0
SERVER = ["sshd: /usr/sbin/sshd"]


@pytest.fixture(scope="module")
def home(ssh_lab):
    return ssh_lab.lab.folder / "home"


@pytest.fixture(scope="module")
def notebook(ssh_lab, home):
    made = notebook_on(ssh_lab.lab["head"], {"GPULAYER_HOME": str(home)})
    try:
        made.ok(SETUP)
        yield made
    finally:
        if made.manager.has_kernel:
            made.end()


def line(ssh_lab, hosts, more=""):
    return (
        f'%gpulayer up --target ssh --hosts {hosts} --devices 2 --ssh "ssh -F {ssh_lab.config}" '
        f"--env PYTHONPATH={REPOSITORY} --env OMP_NUM_THREADS=1 {more}"
    )


def up(notebook, ssh_lab):
    return notebook.ok(line(ssh_lab, "a,b"), 120)


def nothing_runs_on_hosts(ssh_lab):
    for host in ssh_lab.hosts:
        assert ssh_lab.lab[host].wait_until_idle(LIMIT_SECONDS, ignore=SERVER) == []


def ssh_clients(ssh_lab):
    return {p.command.split(" -- ")[1].split()[0]: p for p in ssh_lab.lab["head"].processes() if p.command.startswith("ssh -F")}


def test_two_hosts_train_as_one_process_does(notebook, ssh_lab):
    said = up(notebook, ssh_lab)
    assert "ssh to 2 hosts" in said and "node 1 · b" in said
    assert set(ssh_clients(ssh_lab)) == {"a", "b"}  # one a host, whatever the number of ranks
    check_training(notebook, "ssh")


def test_the_key_of_the_cluster_is_in_no_command_line(notebook, ssh_lab):
    up(notebook, ssh_lab)
    info = ssh_lab.lab["head"].run(["cat", "/tmp/gpulayer-0/ssh/security/ipcontroller-engine.json"]).stdout
    key = re.search(r'"curve_serverkey": "([^"]+)"', info).group(1)
    for host in ssh_lab.lab:
        assert not [process for process in host.processes() if key in process.command]


def test_a_bad_host_is_named_with_sshs_own_words_and_the_good_one_is_left_clean(notebook, ssh_lab):
    notebook.ok("%gpulayer down", 30)
    began = time.monotonic()
    result = notebook.run(line(ssh_lab, "a,nope,c"), 40)
    assert "2 hosts of 3 did not start a worker" in result.error
    assert re.search(r"nope: ssh: Could not resolve hostname nope: .*\(exit code 255\)", result.error)
    assert re.search(r"c: ssh: connect to host c port 22: Connection refused \(exit code 255\)", result.error)
    assert time.monotonic() - began < LIMIT_SECONDS + 5
    nothing_runs_on_hosts(ssh_lab)


def test_a_host_without_our_package_says_so(notebook, ssh_lab):
    result = notebook.run(line(ssh_lab, "a,b", "--python /usr/bin/python-that-is-not-there"), 40)
    assert re.search(r"  b: .*python-that-is-not-there.*No such file or directory", result.error), result.error


def test_a_killed_ssh_ends_its_worker_and_the_run_and_the_next_one_works(notebook, ssh_lab, home):
    up(notebook, ssh_lab)
    notebook.ok("%%ranks --target ssh --nodes 2 --devices 2\nrank", 60)
    cell = send_training(notebook, ENDLESS, home)
    began = time.monotonic()
    ssh_lab.lab["head"].run(["kill", "-9", str(ssh_clients(ssh_lab)["b"].pid_there)])
    result = notebook.read(cell, 30)
    took = time.monotonic() - began
    assert result.error is not None and took < LIMIT_SECONDS, f"{took:.1f} s: {result.error}"
    assert "worker b" in result.error and "the ssh to b has ended" in result.error and "signal 9" in result.error, result.error
    assert ssh_lab.lab["b"].wait_until_idle(LIMIT_SECONDS, ignore=SERVER) == []
    result = notebook.run("%%ranks\nrank", 30)
    assert "the ssh to b has ended" in result.error and "%gpulayer up --target ssh" in result.error
    up(notebook, ssh_lab)
    check_training(notebook, "ssh")


def test_a_detached_run_takes_its_hosts_along_and_they_end_with_it(notebook, ssh_lab):
    up(notebook, ssh_lab)
    endless = ENDLESS.replace("%%gpulayer", "%%gpulayer --detach --as away --target ssh --nodes 2 --devices 2")
    notebook.ok(endless.replace("--max-steps 100000", "--max-steps 200"), 60)
    notebook.ok("%gpulayer down", 30)
    assert notebook.ok("print(away.wait(60))", 70).split()[-1] == "finished"
    nothing_runs_on_hosts(ssh_lab)
    assert ssh_clients(ssh_lab) == {}


def test_down_ends_the_workers(notebook, ssh_lab):
    up(notebook, ssh_lab)
    notebook.ok("%gpulayer down", 30)
    nothing_runs_on_hosts(ssh_lab)
    assert ssh_clients(ssh_lab) == {}


def test_a_kernel_that_is_killed_leaves_nothing_on_any_host(notebook, ssh_lab):
    up(notebook, ssh_lab)
    notebook.manager.signal_kernel(signal.SIGKILL)
    nothing_runs_on_hosts(ssh_lab)
    left = ssh_lab.lab["head"].wait_until_idle(LIMIT_SECONDS)
    assert left == []
