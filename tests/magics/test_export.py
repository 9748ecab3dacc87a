"""A training cell and the script that is made of it: the same numbers."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # a real notebook with four ranks, then the same four under torchrun

EARLIER = '''
import math
from sklearn.datasets import load_digits
from torch.utils.data import random_split
pictures, labels = load_digits(return_X_y=True)  # arrays that exist only in memory
pictures = torch.tensor(pictures, dtype=torch.float32) / 16
SCALE = 0.5
WIDTH = 24

class Digits(Dataset):
    """With state, of a class of the notebook."""
    def __init__(self, pictures, labels):
        self.pictures, self.labels = pictures, torch.as_tensor(labels)
    def __len__(self):
        return len(self.labels)
    def __getitem__(self, at):
        return self.pictures[at], self.labels[at]

digits = Digits(pictures[:1203], labels[:1203])

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Dropout(0.2), nn.Linear(WIDTH, 10))
    def forward(self, x):
        return self.layers(x * SCALE)

def accuracy(pred, target):
    return (pred.argmax(1) == target).float().mean()
'''
CELL = """%%gpulayer --nodes 2 --devices 2 --epochs 3 --seed 7 {more} --accelerator cpu
%matplotlib inline
train_set = torch.utils.data.Subset(digits, range(1003))
val_set = torch.utils.data.Subset(digits, range(1003, 1203))
model = Net()
train_loader = DataLoader(train_set, batch_size=16, shuffle=True)
val_loader = DataLoader(val_set, batch_size=32)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
metrics = {{"acc": accuracy, "half": lambda pred, target: math.sqrt(0.25)}}
"""


def last_means(text):
    last = re.findall(r"epoch \d+: (.*)", text)[-1]
    return {name: float(value) for name, value in re.findall(r"(\w+) (\S+)", last)}


@pytest.mark.parametrize("more", ["", "--accumulate 3 --clip 0.5 --max-steps 17"])
def test_the_script_gives_what_the_cell_gave(notebook, tmp_path, more):
    notebook.ok(EARLIER)
    notebook.ok(CELL.format(more=more), limit_seconds=120)
    said = notebook.ok(f"%gpulayer export {tmp_path / 'train.py'}")
    assert f"Wrote {tmp_path / 'train.py'}, {tmp_path / 'train.pt'}. Next: `torchrun --nproc-per-node 4" in said
    notebook.ok(f"torch.save(model.state_dict(), {str(tmp_path / 'cell.pt')!r})")
    metrics = dict(eval(notebook.ok("print(glt.runs[-1].metrics)")))
    text = (tmp_path / "train.py").read_text()
    assert "gpulayer_nb" not in text.replace("%%gpulayer", "")
    assert "# left out: get_ipython().run_line_magic('matplotlib', 'inline')" in text
    done = subprocess.run(
        [sys.executable, "-m", "gpulayer_nb", "launch", "train.py", "--nodes", "2", "--devices", "2"],
        capture_output=True, text=True, timeout=200, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ours = last_means(done.stdout)
    assert ours.keys() == metrics.keys() == {"loss", "acc", "half", "val_loss", "val_acc", "val_half"}
    for name, value in metrics.items():
        assert ours[name] == pytest.approx(value, abs=1e-6), name
    compare = (
        "import torch; a, b = torch.load('cell.pt'), torch.load('train.weights.pt'); assert a.keys() == b.keys(); "
        "print(max((a[k].double() - b[k].double()).abs().max().item() for k in a))"
    )
    far = subprocess.run([sys.executable, "-c", compare], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert float(far.stdout) < 1e-6, far.stderr


def test_a_batch_file_goes_around_the_script(notebook, tmp_path):
    said = notebook.ok(f"%gpulayer export --to slurm {tmp_path / 'job.sbatch'}")
    assert f"sbatch {tmp_path / 'job.sbatch'}" in said
    batch = (tmp_path / "job.sbatch").read_text()
    assert "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n" in batch and "#SBATCH --no-requeue" in batch
    assert subprocess.run(["bash", "-n", str(tmp_path / "job.sbatch")], timeout=20).returncode == 0
    assert (tmp_path / "job.py").exists() and (tmp_path / "job.pt").exists()


def test_what_cannot_go_into_a_script_is_named(notebook, tmp_path):
    notebook.ok(
        "import threading\nlock = threading.Lock()\n"
        "def locked(x):\n    with lock: return x\nx = torch.arange(8.)\nsmall = TensorDataset(x, x)\n"
    )
    cell = (
        "%%gpulayer --nodes 1 --devices 1\nmodel = nn.Linear(1, 1)\ntrain_loader = DataLoader(small, batch_size=4)\n"
        "loss_fn = lambda pred, target: (pred.sum() - target.sum()) ** 2\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=.0)\n"
    )
    cell = cell.replace("DataLoader(small", "DataLoader(TensorDataset(x[:, None], x[:, None])")
    notebook.ok(cell)
    assert "Wrote" in notebook.ok(f"%gpulayer export {tmp_path / 'fine.py'}")
    notebook.ok("class Model(glt.Module):\n    def forward(self, x): return x\nkind = Model")
    failed = notebook.run(f"%gpulayer export {tmp_path / 'script.txt'}")
    assert failed.error.startswith("UsageError:") and "does not end in .py" in failed.error
