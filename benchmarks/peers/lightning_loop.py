"""Under torchrun: Lightning's `ddp` that logs every step's mean loss.

Arguments: the workload's name, the file for steps per second.
"""

import os
import sys
import time
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader
from workload import BATCH_SIZE, LEARNING_RATE, RANKS, WORKLOADS

workload = WORKLOADS[sys.argv[1]]
STEPS = workload.warm_up + workload.timed


class Net(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = workload.make_model()
        self.started = 0.0

    def training_step(self, batch: list[torch.Tensor], batch_index: int) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss, on_step=True, on_epoch=False, sync_dist=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=LEARNING_RATE)

    def on_train_batch_end(self, *_: object) -> None:
        if self.global_step == workload.warm_up:
            self.started = time.time()
        if self.global_step == STEPS and os.environ["RANK"] == "0":
            Path(sys.argv[2]).write_text(repr(workload.timed / (time.time() - self.started)))


trainer = Trainer(accelerator="cpu", devices=RANKS, strategy="ddp", max_steps=STEPS, max_epochs=-1, logger=False,
                  enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)  # fmt: skip
trainer.fit(Net(), DataLoader(workload.train_set(), batch_size=BATCH_SIZE, shuffle=True))
