"""Under torchrun: a hand-written DDP loop without metrics. Arguments: the workload's name, the file for steps per second."""

import itertools
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from workload import BATCH_SIZE, LEARNING_RATE, WORKLOADS

workload = WORKLOADS[sys.argv[1]]
dist.init_process_group("gloo")
model = DistributedDataParallel(workload.make_model())
train_set = workload.train_set()
sampler: DistributedSampler = DistributedSampler(train_set, shuffle=True)
train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, sampler=sampler)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)

step, started = 0, 0.0
for epoch in itertools.count():
    sampler.set_epoch(epoch)
    for inputs, labels in train_loader:
        optimizer.zero_grad()
        loss_fn(model(inputs), labels).backward()
        optimizer.step()
        step += 1
        if step == workload.warm_up:
            started = time.time()
        if step == workload.warm_up + workload.timed:
            break
    else:
        continue
    break
if dist.get_rank() == 0:
    Path(sys.argv[2]).write_text(repr(workload.timed / (time.time() - started)))
dist.destroy_process_group()
