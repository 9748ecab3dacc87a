import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from at_work import send_at_work
from waiting import wait_until

from gpulayer_nb.process import start_ticks
from gpulayer_nb.records.cluster_folder import clusters_root

pytestmark = pytest.mark.slow  # every test starts ranks of its own


def processes_and_files(notebook):
    """Every process below the kernel, and the folders of its cluster."""
    kernel = psutil.Process(notebook.manager.provisioner.pid)
    folders = notebook.ok(
        "from gpulayer_nb.api.current import session; f = session().cluster.folder; print(f.path); print(f.blobs)"
    ).split()
    return [child.pid for child in kernel.children(recursive=True)], [Path(folder) for folder in folders]


def processes_below(notebook):
    return [child.pid for child in psutil.Process(notebook.manager.provisioner.pid).children(recursive=True)]


def assert_gone(pids, folders, within_seconds):
    deadline = time.monotonic() + within_seconds
    while time.monotonic() < deadline:
        left = [pid for pid in pids if start_ticks(pid) is not None]
        if not left and not any(folder.exists() for folder in folders):
            return
        time.sleep(0.05)
    raise AssertionError(
        f"left: {[(pid, psutil.Process(pid).cmdline()) for pid in left]}, {[str(f) for f in folders if f.exists()]}"
    )


def test_down_leaves_nothing(fresh_notebook):
    fresh_notebook.ok("%%ranks --nodes 2 --devices 2\nrank")
    pids, folders = processes_and_files(fresh_notebook)
    assert len(pids) >= 7  # supervisor, zygote, controller, four engines
    fresh_notebook.ok("%gpulayer down")
    assert_gone(pids, folders, within_seconds=0.5)


def test_a_kernel_that_ends_leaves_nothing(fresh_notebook):
    fresh_notebook.ok("%%ranks --nodes 1 --devices 2\nrank")
    pids, folders = processes_and_files(fresh_notebook)
    fresh_notebook.end()
    assert_gone(pids, folders, within_seconds=5)


def test_a_kernel_that_is_killed_while_ranks_work_leaves_nothing(fresh_notebook):
    fresh_notebook.ok("%%ranks --nodes 1 --devices 2\nrank")
    pids, folders = processes_and_files(fresh_notebook)
    send_at_work(fresh_notebook, "%%ranks\nwhile True: dist.all_reduce(torch.ones(1))", ranks=2)
    os.kill(fresh_notebook.manager.provisioner.pid, signal.SIGKILL)
    assert_gone(pids, folders, within_seconds=5)


SLOW_STEPS = """
import time, torch; from pathlib import Path; from torch import nn
from torch.utils.data import DataLoader, TensorDataset
class Slow(nn.Module):
    def __init__(self):
        super().__init__(); self.w = nn.Parameter(torch.zeros(1))
    def forward(self, x):
        import os
        with open(Path({folder!r}) / os.environ['RANK'], 'a') as file: file.write('step\\n')
        time.sleep(0.2); return self.w * x
model = Slow(); x = torch.arange(400.)
"""
TRAIN = """%%gpulayer --nodes 1 --devices 2
train_loader = DataLoader(TensorDataset(x, x), batch_size=1, num_workers=1)
loss_fn = nn.MSELoss(); optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)"""


def test_an_interrupted_run_does_no_further_step_and_a_restarted_kernel_leaves_nothing(fresh_notebook, tmp_path):
    fresh_notebook.ok(SLOW_STEPS.format(folder=str(tmp_path)))
    running = fresh_notebook.send(TRAIN)
    steps = [tmp_path / "0", tmp_path / "1"]
    wait_until(lambda: all(file.exists() and file.stat().st_size > 25 for file in steps))
    fresh_notebook.manager.interrupt_kernel()
    result = fresh_notebook.read(running, limit_seconds=10)
    assert result.error.startswith("RunStopped: stopped after step ")
    assert result.seconds < 5
    sizes = [file.stat().st_size for file in steps]
    assert fresh_notebook.run("%%ranks\nx_ = torch.ones(1); dist.all_reduce(x_); int(x_)").seconds < 3
    pids, folders = processes_and_files(fresh_notebook)
    fresh_notebook.send(TRAIN)
    wait_until(lambda: all(file.stat().st_size > size for file, size in zip(steps, sizes, strict=True)))  # the second run works
    pids += processes_below(fresh_notebook)  # loader workers among them
    assert len(set(pids)) > 10
    fresh_notebook.manager.restart_kernel(now=True)
    assert_gone(pids, folders, within_seconds=10)


def test_a_supervisor_that_is_killed_takes_its_engines_along_and_the_next_cell_starts_anew(fresh_notebook):
    fresh_notebook.ok("%%ranks --nodes 1 --devices 2\nrank")
    pids, folders = processes_and_files(fresh_notebook)
    supervisor = json.loads((folders[0] / "state.json").read_text())["pid"]
    os.kill(supervisor, signal.SIGKILL)
    assert_gone(pids, [], within_seconds=5)
    assert fresh_notebook.ok("%%ranks --nodes 1 --devices 2\nrank").splitlines() == ["[rank 0] Out: 0", "[rank 1] Out: 1"]


def test_a_supervisor_that_is_killed_while_ranks_work_ends_the_cell(fresh_notebook):
    fresh_notebook.ok("%%ranks --nodes 1 --devices 2\nrank")
    pids, folders = processes_and_files(fresh_notebook)
    supervisor = json.loads((folders[0] / "state.json").read_text())["pid"]
    running = send_at_work(fresh_notebook, "%%ranks\nwhile True: dist.all_reduce(torch.ones(1))", ranks=2)
    os.kill(supervisor, signal.SIGKILL)
    result = fresh_notebook.read(running, limit_seconds=10)
    assert result.error.startswith("RunFailed: Rank ")
    assert_gone(pids, [], within_seconds=5)


def test_what_a_dead_owner_left_is_swept_at_the_next_start_and_only_that(fresh_notebook):
    """A folder whose owner is gone is removed; its recorded pids now belong to others, who live on."""
    stale = clusters_root() / "local-999999-abcdef"
    (stale / "security").mkdir(parents=True)
    (stale / "owner.json").write_text(json.dumps([[999999, 1]]))
    (stale / "security" / "ipcontroller-client.json").write_text("{}")
    (stale / "state.json").write_text(
        json.dumps(
            {"worker": "local", "pid": os.getpid(), "phase": "up", "address": "", "facts": {}, "deaths": [], "message": "",
             "engines": [{"slot": 0, "pid": os.getpid(), "ticks": 1, "uuid": None}], "children": [[os.getpid(), 1]]}
        )
    )  # fmt: skip
    assert fresh_notebook.ok("%%ranks --nodes 1 --devices 2\nworld_size").count("Out: 2") == 2
    assert not stale.exists()


def test_engines_are_no_forks_of_the_kernel_and_have_only_what_was_shipped(fresh_notebook):
    fresh_notebook.ok("import sys; sys.modules['os'].__dict__['planted'] = 1")
    text = fresh_notebook.ok(
        "%%ranks --nodes 1 --devices 2\nimport os\n"
        "(hasattr(os, 'planted'), b'ipykernel_launcher' in open('/proc/self/cmdline', 'rb').read())"
    )
    assert text.count("Out: (False, False)") == 2
