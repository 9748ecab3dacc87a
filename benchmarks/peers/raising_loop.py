"""Under torchrun: a DDP loop in which rank 1 raises at step 40. Argument: the file for the time of the raise."""

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1000):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    time.sleep(0.05)
    if step == 40 and dist.get_rank() == 1:
        Path(sys.argv[1]).write_text(repr(time.time()))
        raise ValueError("sample 17 is broken")
