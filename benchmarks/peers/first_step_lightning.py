"""Under torchrun, with Lightning's `ddp`: one optimizer step; rank 0 writes the time of it. Argument: the file to write."""

import os
import sys
import time
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch: list[torch.Tensor], batch_index: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def on_train_batch_end(self, *_: object) -> None:
        if os.environ["RANK"] == "0":
            Path(sys.argv[1]).write_text(repr(time.time()))


train_set = TensorDataset(torch.randn(256, 64), torch.randint(10, (256,)))
trainer = Trainer(accelerator="cpu", devices=4, strategy="ddp", max_steps=1, logger=False, enable_checkpointing=False,
                  enable_progress_bar=False, enable_model_summary=False)  # fmt: skip
trainer.fit(Net(), DataLoader(train_set, batch_size=16, shuffle=True))
