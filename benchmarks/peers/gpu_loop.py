"""Under torchrun: a hand-written DDP loop on GPUs, without metrics. Arguments: the precision, the file for steps per second."""

import itertools
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from throughput_gpu import BATCH_SIZE, TIMED, WARM_UP, make_model, train_set
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

mixed = sys.argv[1] == "bf16-mixed"
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl")
model = DistributedDataParallel(make_model().to(device), device_ids=[device.index])
data = train_set()
sampler: DistributedSampler = DistributedSampler(data, shuffle=True)
train_loader = DataLoader(data, batch_size=BATCH_SIZE, sampler=sampler)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

steps, began = 0, 0.0
for epoch in itertools.count():
    sampler.set_epoch(epoch)
    for inputs, labels in train_loader:
        inputs, labels = inputs.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
            loss = loss_fn(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
        if steps in (WARM_UP, WARM_UP + TIMED):
            torch.cuda.synchronize()
            began = time.time() if steps == WARM_UP else began
        if steps == WARM_UP + TIMED:
            break
    else:
        continue
    break
if dist.get_rank() == 0:
    Path(sys.argv[2]).write_text(repr(TIMED / (time.time() - began)))
dist.destroy_process_group()
