"""Under torchrun: an Accelerate loop that gathers every step's losses.

Arguments: the workload's name, the file for steps per second.
"""

import itertools
import sys
import time
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader
from workload import BATCH_SIZE, LEARNING_RATE, WORKLOADS

workload = WORKLOADS[sys.argv[1]]
accelerator = Accelerator(cpu=True)
model = workload.make_model()
train_loader = DataLoader(workload.train_set(), batch_size=BATCH_SIZE, shuffle=True)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
model, optimizer, train_loader = accelerator.prepare(model, optimizer, train_loader)

step, started = 0, 0.0
losses = []  # what a user would plot
for _ in itertools.count():
    for inputs, labels in train_loader:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), labels)
        accelerator.backward(loss)
        optimizer.step()
        losses.append(accelerator.gather_for_metrics(loss.detach()).mean().item())
        step += 1
        if step == workload.warm_up:
            started = time.time()
        if step == workload.warm_up + workload.timed:
            break
    else:
        continue
    break
if accelerator.is_main_process:
    Path(sys.argv[2]).write_text(repr(workload.timed / (time.time() - started)))
accelerator.end_training()
if torch.distributed.is_initialized():  # newer releases of accelerate have ended it
    torch.distributed.destroy_process_group()
