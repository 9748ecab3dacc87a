"""An ordinary DDP script: it knows torchrun's environment variables and nothing else.

Trains a small network on handwritten digits (scikit-learn's own, no download). It runs unchanged

    torchrun --nproc-per-node 4 train_ddp.py --epochs 3                       on one machine
    gpulayer launch train_ddp.py --nodes 2 --devices 2 -- --epochs 3          on two (simulated) nodes
    glt.launch("train_ddp.py", nodes=2, devices=2, args=["--epochs", "3"])    from a notebook

and gives the same losses each time, because the data of 2 × 2 ranks are those of 1 × 4.
"""

import argparse
import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset, random_split
from torch.utils.data.distributed import DistributedSampler


def digits() -> tuple[TensorDataset, TensorDataset]:
    """1,500 pictures to train on, 297 to test with, the same on every rank."""
    pictures, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(pictures, dtype=torch.float32) / 16, torch.tensor(labels))
    train, test = random_split(data, [1500, 297], generator=torch.Generator().manual_seed(0))
    return train, test


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def mean_over_ranks(total: torch.Tensor, count: int, device: torch.device) -> float:
    """The mean over all samples of all ranks, from each rank's sum and count."""
    both = torch.stack([total.detach().double(), torch.tensor(float(count), dtype=torch.float64, device=device)])
    dist.all_reduce(both)
    return (both[0] / both[1]).item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=25, help="of one rank")
    parser.add_argument("--lr", type=float, default=0.5)
    options = parser.parse_args()

    # 1. initialise the processes: rank, world size and address come from torchrun
    use_gpu = torch.cuda.is_available() and torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if use_gpu else torch.device("cpu")
    if use_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if use_gpu else "gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {world_size} is local rank {os.environ['LOCAL_RANK']} of node {os.environ['GROUP_RANK']}", flush=True)

    # 2. split the data set: each rank reads its own part, in another order each epoch
    train_set, test_set = digits()
    sampler: DistributedSampler = DistributedSampler(train_set, shuffle=True, seed=0)
    loader = DataLoader(train_set, batch_size=options.batch_size, sampler=sampler)
    own_test = torch.utils.data.Subset(test_set, range(rank, len(test_set), world_size))  # each picture once, no padding

    # 3. wrap the model: the same start on every rank, gradients averaged after each backward pass
    torch.manual_seed(0)
    model = DistributedDataParallel(network().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
    loss_fn = nn.CrossEntropyLoss()

    # 4. the loop; rank 0 tells
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        total, count = torch.zeros((), device=device), 0
        for pictures, labels in loader:
            pictures, labels = pictures.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = loss_fn(model(pictures), labels)
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(labels)
            count += len(labels)
        train_loss = mean_over_ranks(total, count, device)
        with torch.no_grad():
            pairs = [(pictures.to(device), labels.to(device)) for pictures, labels in DataLoader(own_test, batch_size=100)]
            right = sum((model.module(pictures).argmax(1) == labels).sum() for pictures, labels in pairs)
        accuracy = mean_over_ranks(torch.as_tensor(right, device=device), len(own_test), device)
        if rank == 0:
            print(f"epoch {epoch + 1}: loss {train_loss:.6f}, test accuracy {accuracy:.4f}", flush=True)
    del model  # before its group: where the model goes last, gloo may wait for ever
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
