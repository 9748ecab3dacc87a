"""A script on two workers that were started by hand: one torchrun on each."""

import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # a controller, two imports of torch, two of torchrun

SCRIPT = """
import os, sys
print(*(os.environ[name] for name in ("RANK", "GROUP_RANK", "LOCAL_RANK", "WORLD_SIZE")), os.getcwd(), flush=True)
if "raise" in sys.argv and os.environ["RANK"] == "3": raise ValueError("bad sample 17")
"""


@pytest.fixture
def launch(loopback, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)

    def run(*words):
        command = [sys.executable, "-m", "gpulayer_nb", "launch", "script.py", "--target", str(loopback.client_file), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=150, cwd=tmp_path)

    return run


def test_each_worker_is_a_node_and_is_free_afterwards(launch, loopback, tmp_path):
    done = launch("--nodes", "2", "--devices", "2")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[rank {rank}] {rank} {rank // 2} {rank % 2} 4 {tmp_path}" for rank in range(4)]
    command = [sys.executable, "-m", "gpulayer_nb", "worker", "list", "--target", str(loopback.client_file)]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    assert "busy" not in listed and len(listed.splitlines()) == 3


def test_a_failure_names_the_worker(launch):
    done = launch("--nodes", "2", "--devices", "2", "--", "raise")
    assert done.returncode == 1
    assert "ValueError: bad sample 17 — rank 3 (node 1, local rank 1, worker b), in script.py line 4, exit code 1" in done.stderr


def test_more_than_there_is_is_refused_with_a_table(launch):
    done = launch("--nodes", "3", "--devices", "2")
    assert done.returncode == 1 and done.stdout == ""
    assert re.search(r"\ba\b.*\n.*\bb\b", done.stderr), done.stderr
