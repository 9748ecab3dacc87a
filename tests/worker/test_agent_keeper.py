"""How ranks under a keeper ended, also where torchrun was quicker than the keeper's look."""

import os
import signal
import subprocess

import pytest
from waiting import wait_until

from gpulayer_nb.link.ports import HeldPort
from gpulayer_nb.records.agent import AgentOrder
from gpulayer_nb.records.agent_folder import AgentFolder

pytestmark = pytest.mark.slow

SCRIPT = """
import os, pathlib, time
while not pathlib.Path("go").exists(): time.sleep(0.01)
if os.environ["LOCAL_RANK"] == "0": os._exit(7)
time.sleep(300)
"""


@pytest.fixture
def kept(tmp_path):
    """A keeper with two ranks at work."""
    (tmp_path / "script.py").write_text(SCRIPT)
    port = HeldPort("127.0.0.1")
    order = AgentOrder(
        run_id="run", script=str(tmp_path / "script.py"), arguments=(), folder=str(tmp_path), nodes=1, devices=2, node_rank=0,
        master_addr="127.0.0.1", master_port=port.number,
    )  # fmt: skip
    folder = AgentFolder.create(tmp_path / "agents", order)
    keeper = subprocess.Popen(folder.keeper_command(), stdin=subprocess.PIPE)
    wait_until(lambda: len(folder.read_status().pids) == 2)
    yield folder, keeper, tmp_path / "go"
    keeper.kill()
    keeper.wait()
    port.close()


def test_the_rank_that_failed_is_told_from_the_one_that_was_ended(kept):
    folder, keeper, go = kept
    go.touch()
    keeper.wait(20)
    status = folder.read_status()
    assert (status.ends[0].exit_code, status.ends[0].is_late) == (7, False)
    assert status.ends[1].exit_code in (-signal.SIGTERM, None)


def test_a_keeper_that_looks_too_late_still_has_the_failures_code_and_makes_none_up(kept):
    folder, keeper, go = kept
    os.kill(keeper.pid, signal.SIGSTOP)
    go.touch()
    wait_until(folder.failures_file.exists)
    wait_until(lambda: all(zombie_or_gone(pid) for pid in [folder.read_status().pid, *folder.read_status().pids.values()]))
    os.kill(keeper.pid, signal.SIGCONT)
    keeper.wait(20)
    ends = folder.read_status().ends
    assert (ends[0].exit_code, ends[0].is_late) == (7, False)
    assert ends[1].exit_code in (-signal.SIGTERM, None)


def test_ranks_that_the_keeper_kills_are_told_so(kept):
    folder, keeper, _ = kept
    keeper.stdin.close()
    keeper.wait(20)
    assert {rank: (end.exit_code, end.is_late) for rank, end in folder.read_status().ends.items()} == {
        0: (-signal.SIGKILL, True),
        1: (-signal.SIGKILL, True),
    }


def zombie_or_gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
