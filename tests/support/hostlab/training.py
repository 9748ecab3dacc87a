"""Cells that train on several hosts, and what one process makes of the same."""

from __future__ import annotations

from real_notebook import Notebook

SETUP = """%load_ext gpulayer_nb
import time, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
def parts(batch_size):
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(96, 4), torch.randn(96, 1))
    model = nn.Linear(4, 1)
    return model, DataLoader(data, batch_size=batch_size), nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1)
class Slow(nn.Linear):
    def forward(self, x):
        time.sleep(0.02)
        return super().forward(x)
"""
TRAIN = """model, train_loader, loss_fn, optimizer = parts(8)"""
ENDLESS = """%%gpulayer --max-steps 100000 --epochs 100000
model, train_loader, loss_fn, _ = parts(8)
model = Slow(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
ONE_PROCESS = """model_, loader_, loss_fn_, optimizer_ = parts(32)
for _ in range(3):
    for x_, y_ in loader_:
        optimizer_.zero_grad(); loss_fn_(model_(x_), y_).backward(); optimizer_.step()
print(max(float((a - b).detach().abs().max()) for a, b in zip(model.parameters(), model_.parameters())))
"""
WHO = "%%ranks\nimport socket\nsocket.gethostname()"


def check_training(notebook: Notebook, target: str, seconds: float = 60.0) -> None:
    """Four ranks on a and b train as one process does with the global batch."""
    notebook.ok(f"%%gpulayer --epochs 3 --nodes 2 --devices 2 --target {target}\n{TRAIN}", seconds)
    difference = float(notebook.ok(ONE_PROCESS))
    assert difference < 1e-6
    hosts = [line.split()[-1].strip("'") for line in notebook.ok(WHO).splitlines() if "Out:" in line]
    assert hosts == ["a", "a", "b", "b"]
