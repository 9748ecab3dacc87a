"""A disk that is full takes the record of a run away, never the run."""

import pytest

pytestmark = pytest.mark.slow

LINE = """
import torch; from torch import nn
from torch.utils.data import DataLoader, TensorDataset
x = torch.arange(1., 9.); line_set = TensorDataset(x, 2 * x); model = nn.Linear(1, 1)
"""
TRAIN = """%%gpulayer --nodes 1 --devices 2 --epochs {epochs}
print('x' * 5000)
train_loader = DataLoader(TensorDataset(x[:, None], x[:, None]), batch_size=1)
loss_fn = nn.MSELoss(); optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)"""


def test_a_run_whose_folder_is_full_fails_at_its_checkpoint_and_names_the_cause(fresh_notebook, small_disk):
    fresh_notebook.ok(f"import os; os.environ['GPULAYER_HOME'] = {str(small_disk)!r}" + LINE)
    fresh_notebook.ok(f"open({str(small_disk / 'filler')!r}, 'wb').write(b'x' * 44_000)")
    result = fresh_notebook.run(TRAIN.format(epochs=20))
    assert result.error is not None
    assert "No space left on device" in result.error
    assert fresh_notebook.ok("%%ranks\nx_ = torch.ones(1); dist.all_reduce(x_); int(x_)", limit_seconds=20).count("Out: 2") == 2


def test_a_run_that_writes_no_checkpoint_goes_on_with_a_full_disk(fresh_notebook, small_disk):
    fresh_notebook.ok(f"import os; os.environ['GPULAYER_HOME'] = {str(small_disk)!r}" + LINE)
    fresh_notebook.ok("%%ranks --nodes 1 --devices 2\npass")
    fresh_notebook.ok(f"open({str(small_disk / 'filler')!r}, 'wb').write(b'x' * 44_000)")
    source = """
class Own(glt.Module):
    def __init__(self):
        super().__init__(); self.w = nn.Parameter(torch.zeros(1))
    def training_step(self, batch, i): self.log('a_long_name_' * 20, self.w.sum()); return (self.w * batch[0]).sum()
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=1e-4)
run = glt.Trainer(max_epochs=300, devices=2, enable_checkpointing=False).fit(Own(), DataLoader(line_set, batch_size=1))
print(run.state, len(run.history))
"""
    result = fresh_notebook.run(source)
    assert result.error is None, result.error
    assert "finished 1500" in result.text
    free = fresh_notebook.ok(f"import shutil; print(shutil.disk_usage({str(small_disk)!r}).free)")
    assert int(free) < 8192


FILL = """
f = open({path!r}, 'wb', buffering=0)
try:
    while f.write(b'x' * 4096): pass
except OSError: pass
f.truncate(f.tell() - 4096 * {left}); f.close()
"""


def test_a_disk_that_fills_up_as_a_run_begins_is_one_clear_error_and_costs_nothing(fresh_notebook, small_disk):
    """Pages of 4 kB: one after the other the folder, the run's first files, its first records, its checkpoint find no room."""
    fresh_notebook.ok(f"import os; os.environ['GPULAYER_HOME'] = {str(small_disk)!r}" + LINE)
    fresh_notebook.ok("%%ranks --nodes 1 --devices 2\nkeep = 40 + rank")
    filler = str(small_disk / "filler")
    for left in range(6):
        fresh_notebook.ok(FILL.format(path=filler, left=left))
        result = fresh_notebook.run(TRAIN.format(epochs=1))
        assert result.error is not None, f"{left} pages left: {result.text}"
        assert "No space left on device" in result.error, f"{left} pages left: {result.error}"
        assert "Next: " in result.error, f"{left} pages left: {result.error}"
        assert len(result.error) < 500
        assert len([output for output in result.outputs if output["kind"] == "error"]) == 1
        kept = fresh_notebook.ok("%%ranks\nx_ = torch.ones(1); dist.all_reduce(x_); keep + int(x_)")
        assert [line for line in kept.splitlines() if "Out:" in line] == ["[rank 0] Out: 42", "[rank 1] Out: 43"]
        fresh_notebook.ok(
            f"os.unlink({filler!r}); import shutil; shutil.rmtree({str(small_disk / 'runs')!r}, ignore_errors=True)"
        )
    assert fresh_notebook.run(TRAIN.format(epochs=1)).error is None


def test_a_run_folder_that_cannot_be_made_is_one_line(fresh_notebook, tmp_path):
    (tmp_path / "file").write_text("")
    fresh_notebook.ok(f"import os; os.environ['GPULAYER_HOME'] = {str(tmp_path / 'file')!r}" + LINE)
    result = fresh_notebook.run(TRAIN.format(epochs=1))
    assert result.error.startswith("UsageError: The run folder ")
    assert "Nothing was started." in result.error


def test_two_notebooks_at_once_do_not_disturb_each_other(fresh_notebook, tmp_path):
    other = type(fresh_notebook)(str(tmp_path))
    try:
        other.ok("%load_ext gpulayer_nb\nimport gpulayer_nb as glt")
        cell = "%%ranks --nodes 1 --devices 2\nx_ = torch.ones(1); dist.all_reduce(x_)\nimport time; time.sleep(2); int(x_)"
        running = fresh_notebook.send(cell)
        assert other.ok(cell).count("Out: 2") == 2
        assert fresh_notebook.read(running).text.count("Out: 2") == 2
        other.ok("%gpulayer down")
        assert fresh_notebook.ok("%%ranks\nx_ = torch.ones(1); dist.all_reduce(x_); int(x_)").count("Out: 2") == 2
    finally:
        other.end()
