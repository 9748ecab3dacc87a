"""docs/ipyparallel_profile.py: an ipyparallel profile whose engines are our workers, through ipyparallel's own launcher."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from real_notebook import Notebook

pytestmark = pytest.mark.slow
EXAMPLE = Path(__file__).parents[2] / "docs" / "ipyparallel_profile.py"


@pytest.fixture
def profile(tmp_path, monkeypatch):
    """Two workers of two devices each, up."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    folder = tmp_path / "ipython" / "profile_lab"
    for part in ("log", "security", "pid", "startup"):
        (folder / part).mkdir(parents=True)
    (folder / "ipcluster_config.py").write_text(EXAMPLE.read_text())
    command = [sys.executable, "-m", "ipyparallel.cluster", "start", "--profile=lab", "--n=2"]
    log = tmp_path / "ipcluster.log"
    with log.open("wb") as output:
        running = subprocess.Popen(command, stdout=output, stderr=output, cwd=tmp_path)
    try:
        deadline = time.monotonic() + 60
        while not list((folder / "security").glob("*-client.json")):
            assert running.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield running
    finally:
        running.terminate()
        running.wait(30)


def wait_for_workers(number):
    command = [sys.executable, "-m", "gpulayer_nb", "worker", "list", "--target", "lab"]
    deadline = time.monotonic() + 60
    while len(subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.splitlines()) != number + 1:
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_two_workers_of_a_profile_are_two_nodes(profile, tmp_path):
    notebook = Notebook(str(tmp_path))
    try:
        wait_for_workers(2)
        notebook.ok("%load_ext gpulayer_nb")
        said = notebook.ok(
            "%%ranks --target lab --nodes 2 --devices 2\nx = torch.ones(1); dist.all_reduce(x)\nrank, node_rank, int(x)",
            120,
        )
        assert [line.split("Out: ")[1] for line in said.splitlines() if "Out: " in line] == [
            "(0, 0, 4)", "(1, 0, 4)", "(2, 1, 4)", "(3, 1, 4)",
        ]  # fmt: skip
    finally:
        notebook.end()
