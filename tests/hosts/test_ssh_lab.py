"""sshd in the lab is a real one."""

import subprocess
import time

import pytest

pytestmark = pytest.mark.ssh


def test_head_logs_into_each_host_by_name(ssh_lab):
    for host in ssh_lab.hosts:
        assert ssh_lab.lab["head"].run(["ssh", "-F", ssh_lab.config, host, "hostname"]).stdout.strip() == host


def test_a_killed_ssh_takes_the_remote_command_with_it(ssh_lab):
    head, a = ssh_lab.lab["head"], ssh_lab.lab["a"]
    # the wrapper that a test holds stands for a shell on head; killing it kills ssh itself
    running = subprocess.Popen(
        head.command(["ssh", "-tt", "-F", ssh_lab.config, "a", "sleep 321"]),
        env=head.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 10
    while not [process for process in a.processes() if process.command == "sleep 321"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.kill()
    running.wait(5)
    assert a.wait_until_idle(5, ignore=["sshd: /usr/sbin/sshd"]) == []
