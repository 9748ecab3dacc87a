"""Trains `DigitNet` on 2 simulated nodes × 2 devices and says where the results are. A user's program: public API alone."""

from __future__ import annotations

from torch.utils.data import DataLoader

import gpulayer_nb as glt
from gpulayer_nb.demo import digits
from gpulayer_nb.demo.digit_net import DigitNet

NODES, DEVICES = 2, 2
EPOCHS = 10
BATCH_SIZE = 16  # per rank


def train_and_report() -> int:
    """Train, save the curves beside the run's records, print what was reached; returns the exit code."""
    data = digits.load()
    print(f"{len(data.train_set)} pictures to train on, {len(data.val_set)} to validate; the nodes are groups of processes here.")
    trainer = glt.Trainer(max_epochs=EPOCHS, accelerator="cpu", devices=DEVICES, num_nodes=NODES, target="local")
    run = trainer.fit(
        DigitNet(),
        DataLoader(data.train_set, batch_size=BATCH_SIZE, shuffle=True),
        DataLoader(data.val_set, batch_size=64),
    )
    picture = run.folder / "curves.png"
    run.plot().savefig(picture)
    print("\nMeans over all ranks after the last epoch:")
    for name, value in run.metrics.items():
        print(f"  {name:<10} {value:.4f}")
    print(f"Curves:     {picture}\nRun folder: {run.folder}")
    return 0
