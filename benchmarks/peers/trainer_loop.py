"""Under torchrun: our own fit, without a notebook, records that nobody reads, no view: what the training loop alone costs.

Arguments: the workload's name, the file for steps per second.
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader
from workload import BATCH_SIZE, LEARNING_RATE, RANKS, WORKLOADS

from gpulayer_nb.plan.topology import RankPlace
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.train.fit import fit
from gpulayer_nb.train.plain import PlainTask

workload = WORKLOADS[sys.argv[1]]
STEPS = workload.warm_up + workload.timed
dist.init_process_group("gloo")
rank = dist.get_rank()
model = workload.make_model()
optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
times: list[float] = []
optimizer.register_step_post_hook(lambda *_: times.append(time.time()))
options = FitOptions(
    max_epochs=None, max_steps=STEPS, enable_checkpointing=False, accumulate_grad_batches=workload.accumulate,
    precision=workload.precision,
)  # fmt: skip
fit(
    PlainTask(model, nn.CrossEntropyLoss(), optimizer), DataLoader(workload.train_set(), batch_size=BATCH_SIZE, shuffle=True),
    options=options, place=RankPlace(rank, 0, rank), world_size=RANKS, devices_per_node=RANKS, device=torch.device("cpu"),
)  # fmt: skip
if rank == 0:
    Path(sys.argv[2]).write_text(repr(workload.timed / (times[-1] - times[workload.warm_up - 1])))
os._exit(0)  # torch 2.13 may abort where a group ends right after its last collective
