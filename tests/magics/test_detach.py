import os
import signal
import subprocess
import sys
import time

import pytest
from real_notebook import wait_for_file

from gpulayer_nb.process import children_of, start_ticks

pytestmark = pytest.mark.slow  # every test starts ranks of its own

SLOW = """
import time, torch; from torch import nn
from torch.utils.data import DataLoader, TensorDataset
class Slow(nn.Module):
    def __init__(self):
        super().__init__(); self.w = nn.Parameter(torch.zeros(1))
    def forward(self, x):
        time.sleep(0.02); return self.w * x
x = torch.arange(1., 9.); data = TensorDataset(x, 2 * x)
model = Slow()
"""
TRAIN = """%%gpulayer --nodes 1 --devices 2 --epochs {epochs} --detach --as away
train_loader = DataLoader(data, batch_size=4)
loss_fn = nn.MSELoss(); optimizer = torch.optim.SGD(model.parameters(), lr=.01)
print('on rank', rank)"""
EPOCHS = 100  # about four seconds


def detached(notebook, epochs=EPOCHS):
    notebook.ok(SLOW)
    result = notebook.run(TRAIN.format(epochs=epochs))
    assert result.error is None, result.error
    assert "goes on by itself" in result.text
    return notebook.ok("print(away.run_id)").strip()


def gone(pid, seconds=10.0):
    deadline = time.monotonic() + seconds
    while start_ticks(pid) is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    return start_ticks(pid) is None


def test_a_detached_run_goes_on_and_its_weights_come_on_attach(fresh_notebook):
    run_id = detached(fresh_notebook)
    assert fresh_notebook.ok("print(away.state in ('starting', 'running'), model.w.item())").split() == ["True", "0.0"]
    assert fresh_notebook.ok("%%ranks --nodes 1 --devices 2\nrank").count("Out:") == 2  # new ranks: those of the run are its own
    result = fresh_notebook.run("%gpulayer attach")
    assert result.error is None, result.error
    assert "image/png" in result.outputs[-1]["data"]
    steps = fresh_notebook.ok("print(len([r for r in away.history if r['split'] == 'step']), round(model.w.item(), 3))").split()
    assert steps == [str(EPOCHS), "2.0"]
    assert run_id in fresh_notebook.ok("%gpulayer runs")
    assert "on rank 1" in fresh_notebook.ok("print(away.logs[1])")


def test_a_trainers_fit_is_detached_and_its_weights_come_on_attach_into_the_very_model(fresh_notebook):
    fresh_notebook.ok(SLOW)
    began = time.monotonic()
    source = """
class Own(glt.Module):
    def __init__(self):
        super().__init__(); self.net = Slow()
    def training_step(self, batch, i):
        loss = ((self.net(batch[0]) - batch[1]) ** 2).mean(); self.log('loss', loss); return loss
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=.01)
own = model = Own()
run = glt.Trainer(max_epochs=100, devices=2).fit(own, DataLoader(data, batch_size=4), detach=True)
print(run.state, run is glt.runs[-1])
model = None
"""
    assert "True" in fresh_notebook.ok(source)
    assert time.monotonic() - began < 60
    fresh_notebook.ok("run.attach()")
    assert fresh_notebook.ok("print(round(own.net.w.item(), 3), run.model is own, run.state, len(glt.runs))").split() == [
        "2.0", "True", "finished", "1"
    ]  # fmt: skip


def test_down_leaves_detached_runs_and_names_them(fresh_notebook):
    run_id = detached(fresh_notebook, epochs=2000)
    fresh_notebook.ok("%%ranks --nodes 1 --devices 2\nrank")
    assert fresh_notebook.ok("%gpulayer down").strip() == (
        f"Run {run_id} is detached and goes on. Next: `%gpulayer stop {run_id}` ends it."
    )
    assert fresh_notebook.ok("print(away.state in ('starting', 'running'))").strip() == "True"
    matches = fresh_notebook.complete("%gpulayer stop ")["matches"]
    assert run_id in matches  # jedi adds words of its own
    pids = children_of(fresh_notebook.manager.provisioner.pid)
    fresh_notebook.ok(f"%gpulayer stop {run_id}")
    assert fresh_notebook.ok("print(away.wait(15))").strip() == "stopped"
    assert fresh_notebook.ok("%gpulayer down") == ""
    assert all(gone(pid) for pid in pids)


def test_a_detached_run_survives_its_notebook_and_another_sees_all_of_it(fresh_notebook, tmp_path):
    run_id = detached(fresh_notebook)
    kernel = fresh_notebook.manager.provisioner.pid
    os.kill(kernel, signal.SIGKILL)
    other = type(fresh_notebook)(str(tmp_path))
    try:
        other.ok("%load_ext gpulayer_nb\nimport gpulayer_nb as glt" + SLOW)
        result = other.run(f"%gpulayer attach {run_id}")
        assert result.error is None, result.error
        history = other.ok(
            "print([r['global_step'] for r in glt.runs[-1].history if r['split'] == 'step'] == list(range(1, 101)))"
        )
        assert history.strip() == "True"
        assert other.ok("print(round(model.w.item(), 3), glt.runs[-1].state)").split() == ["2.0", "finished"]
    finally:
        other.end()


def test_a_detached_run_leaves_nothing_when_it_is_over(fresh_notebook):
    detached(fresh_notebook, epochs=10)
    pids = children_of(fresh_notebook.manager.provisioner.pid)
    assert len(pids) >= 6
    fresh_notebook.ok("away.wait(20)")
    assert all(gone(pid) for pid in pids)


def test_a_detached_run_stops_when_asked_from_a_terminal(fresh_notebook):
    run_id = detached(fresh_notebook, epochs=2000)
    time.sleep(1)
    said = subprocess.run([sys.executable, "-m", "gpulayer_nb", "stop", run_id], capture_output=True, text=True, timeout=30)
    assert "Asked run" in said.stdout
    assert fresh_notebook.ok("print(away.wait(10))").strip() == "stopped"
    result = fresh_notebook.run("%gpulayer attach")
    assert result.error is None, result.error
    assert fresh_notebook.ok("print(0 < model.w.item() <= 2)").strip() == "True"
    listed = subprocess.run([sys.executable, "-m", "gpulayer_nb", "runs"], capture_output=True, text=True, timeout=30).stdout
    assert f"{run_id}  stopped" in listed


def test_a_detached_run_that_fails_says_so_on_attach(fresh_notebook):
    fresh_notebook.ok(SLOW)
    fresh_notebook.ok(TRAIN.format(epochs=5) + "\nif rank == 1: raise ValueError('far away')")
    fresh_notebook.ok("away.wait(20)")
    result = fresh_notebook.run("%gpulayer attach")
    assert "ValueError: far away — rank 1" in result.error


@pytest.mark.parametrize("name", ["nosuchrun"])
def test_a_run_that_is_not_there_is_one_line(fresh_notebook, name):
    assert fresh_notebook.run(f"%gpulayer attach {name}").error.startswith(f"UsageError: There is no run {name} on this machine.")


def test_a_run_in_the_foreground_is_stopped_from_elsewhere(fresh_notebook, tmp_path):
    fresh_notebook.ok(SLOW)
    cell = TRAIN.format(epochs=2000).replace("--detach --as away", "")
    running = fresh_notebook.send(f"{cell}\nopen({str(tmp_path / 'begun')!r}, 'w').close()")
    wait_for_file(tmp_path / "begun")
    time.sleep(2)  # for some steps
    said = subprocess.run([sys.executable, "-m", "gpulayer_nb", "stop"], capture_output=True, text=True, timeout=30)
    assert "Asked run" in said.stdout, said
    result = fresh_notebook.read(running, limit_seconds=40)
    assert result.error.startswith("RunStopped: stopped after step ")


def test_a_run_that_hangs_is_explained_from_elsewhere_and_by_itself(fresh_notebook):
    fresh_notebook.ok(SLOW)
    running = fresh_notebook.send("%%ranks --nodes 1 --devices 2\nif rank == 0:\n    dist.barrier()")
    verdict, said = "Rank 0 waits in barrier for others. Rank 1 has left the cell and will not enter it.", ""
    deadline = time.monotonic() + 60  # the ranks have to start first
    while verdict not in said and time.monotonic() < deadline:
        time.sleep(1)
        said = subprocess.run([sys.executable, "-m", "gpulayer_nb", "stuck"], capture_output=True, text=True, timeout=30).stdout
    assert verdict in said, said
    time.sleep(12)  # after ten seconds the cell says so itself
    fresh_notebook.manager.interrupt_kernel()
    result = fresh_notebook.read(running, limit_seconds=15)
    assert "Rank 0 waits in barrier for others." in result.text
    assert result.error.startswith("RunStopped")
