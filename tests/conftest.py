"""What every test can rely on: folders of its own, the environment as it was, no process left behind."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator

import psutil
import pytest

MARK = "GPULAYER_TEST_SESSION"  # inherited by every process a test starts, so stray ones are known for ours
GRACE_SECONDS = 10.0  # how long what a test started may take to end by itself
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(scope="session", autouse=True)
def _own_folders_and_no_stray_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    home = tmp_path_factory.mktemp("home")
    mark = uuid.uuid4().hex
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, mark)
        patch.setenv("OMP_NUM_THREADS", "1")
        for name in ("GPULAYER_HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(home / name.lower()))
        (home / "runtime").mkdir(mode=0o700)
        patch.setenv("XDG_RUNTIME_DIR", str(home / "runtime"))  # clusters of another test run are not there
        yield
        left = _marked_processes(mark)
        deadline = time.monotonic() + GRACE_SECONDS
        while left and time.monotonic() < deadline:
            time.sleep(0.2)
            left = _marked_processes(mark)
    lines = [f"{pid}: {command}" for pid, command in left.items()]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not lines, "processes that the tests started are still there (killed now):\n" + "\n".join(lines)


@pytest.fixture(autouse=True)
def _environment_as_it_was() -> Iterator[None]:
    """Puts `os.environ` back; a test that leaves a rank's variables in this process fails."""
    before = dict(os.environ)
    yield
    leaked = [name for name in RANK_VARIABLES if name in os.environ and os.environ[name] != before.get(name)]
    os.environ.clear()
    os.environ.update(before)
    assert not leaked, f"left in os.environ: {', '.join(leaked)}"


def _marked_processes(mark: str) -> dict[int, str]:
    """pid → command of live processes, other than this one, that carry the mark."""
    found = {}
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        if process.pid == os.getpid() or process.info["status"] == psutil.STATUS_ZOMBIE:
            continue
        try:
            if process.environ().get(MARK) == mark:
                found[process.pid] = " ".join(process.info["cmdline"])[:200]
        except psutil.Error:
            continue  # gone meanwhile, or another user's
    return found
