"""The tunnels of docs/CLUSTERS.md: a notebook that reaches its cluster's controller through ssh alone."""

import contextlib
import re
import time

import pytest
from hostlab import notebook_on
from hostlab.host import REPOSITORY
from hostlab.training import ONE_PROCESS, SETUP, TRAIN
from lab_cluster import GPULAYER

pytestmark = pytest.mark.ssh
FIRST, LAST = 10101, 10118
GUIDE = (REPOSITORY / "docs" / "CLUSTERS.md").read_text()


@contextlib.contextmanager
def running(ssh_lab, host, *command, until=""):
    """A command on a host, from when it has said these words to the end of the block."""
    log = ssh_lab.lab.folder / f"tunnel-{time.monotonic_ns()}.log"
    process = ssh_lab.lab[host].start(list(command), log=log)
    try:
        deadline = time.monotonic() + 60
        while until not in log.read_text():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield log
    finally:
        process.terminate()
        process.wait(15)


def worker(ssh_lab, host, name):
    words = (*GPULAYER, "worker", "start", "--controller", ssh_lab.lab.folder / "engine.json", "--devices", "2", "--name", name)
    return running(ssh_lab, host, *words, until="It ends with this process")


@pytest.mark.parametrize(("address", "other"), [("127.0.0.1", "a"), ("10.77.0.11", "b")])
def test_a_notebook_trains_through_a_tunnel(ssh_lab, address, other):
    """The controller on a, on its loopback address or its private one; workers on a and on another."""
    head, a = ssh_lab.lab["head"], ssh_lab.lab["a"]
    ssh = ("ssh", "-F", ssh_lab.config)
    controller = (*GPULAYER, "controller", "start", "--ip", address, "--ports", f"{FIRST}-{LAST}", "--name", "far")
    forwards = [word for port in range(FIRST, LAST + 1) for word in ("-L", f"{port}:{address}:{port}")]
    with contextlib.ExitStack() as stack:
        stack.enter_context(running(ssh_lab, "a", *controller, until="Ports to open"))
        a.run(["cp", "/tmp/gpulayer-0/far/security/ipcontroller-engine.json", ssh_lab.lab.folder / "engine.json"])
        stack.enter_context(worker(ssh_lab, "a", "one"))
        stack.enter_context(worker(ssh_lab, other, "two"))
        stack.enter_context(running(ssh_lab, "head", *ssh, "-v", "-N", *forwards, "a", until="Entering interactive session"))
        head.run(["scp", "-F", ssh_lab.config, "a:/tmp/gpulayer-0/far/security/ipcontroller-client.json", "/tmp/"])
        if address != "127.0.0.1":
            head.run(["sh", "-c", f"cd /tmp && {re.search(r'^sed .*?json', GUIDE, re.MULTILINE).group()}"])
        notebook = notebook_on(head)
        stack.callback(notebook.end)
        notebook.ok(SETUP)
        said = notebook.run("%gpulayer up --nodes 2 --devices 2 --target ./ipcontroller-client.json", 60)
        assert said.error is None and [output for output in said.outputs if output.get("name") == "stderr"] == []
        notebook.ok(f"%%gpulayer --epochs 3 --nodes 2 --devices 2\n{TRAIN}", 60)
        assert float(notebook.ok(ONE_PROCESS)) < 1e-6
