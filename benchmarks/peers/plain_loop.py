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

accumulate, mixed = workload.accumulate, workload.precision == "bf16-mixed"
step, started = 0, 0.0
for epoch in itertools.count():
    sampler.set_epoch(epoch)
    for index, (inputs, labels) in enumerate(train_loader, start=1):
        if index % accumulate:
            with model.no_sync():
                (loss_fn(model(inputs), labels) / accumulate).backward()
            continue
        if mixed:
            with torch.autocast("cpu", torch.bfloat16):
                loss = loss_fn(model(inputs), labels)
        else:
            loss = loss_fn(model(inputs), labels)
        (loss if accumulate == 1 else loss / accumulate).backward()
        optimizer.step()
        optimizer.zero_grad()
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
