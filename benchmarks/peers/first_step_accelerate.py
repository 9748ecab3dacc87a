"""Under torchrun, with Hugging Face Accelerate: one optimizer step; rank 0 writes the time of it. Argument: the file to write."""

import sys
import time
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
train_set = TensorDataset(torch.randn(256, 64), torch.randint(10, (256,)))
train_loader = DataLoader(train_set, batch_size=16, shuffle=True)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, train_loader = accelerator.prepare(model, optimizer, train_loader)
inputs, labels = next(iter(train_loader))
accelerator.backward(loss_fn(model(inputs), labels))
optimizer.step()
if accelerator.is_main_process:
    Path(sys.argv[1]).write_text(repr(time.time()))
accelerator.end_training()
if torch.distributed.is_initialized():  # newer releases of accelerate have ended it
    torch.distributed.destroy_process_group()
