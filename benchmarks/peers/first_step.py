"""Under torchrun: process group, DDP, one optimizer step; rank 0 writes the time of it. Argument: the file to write."""

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
train_set = TensorDataset(torch.randn(256, 64), torch.randint(10, (256,)))
train_loader = DataLoader(train_set, batch_size=16, sampler=DistributedSampler(train_set))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs, labels = next(iter(train_loader))
loss_fn(model(inputs), labels).backward()
optimizer.step()
if dist.get_rank() == 0:
    Path(sys.argv[1]).write_text(repr(time.time()))
dist.destroy_process_group()
