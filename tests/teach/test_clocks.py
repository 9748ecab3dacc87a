"""What the clocks of the course measure on ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import count

import pytest

from gpulayer_nb import teach

RANKS = """
import json, os, sys, tempfile
import torch, torch.distributed as dist, torch.multiprocessing as mp
from torch import nn
from torch.nn.functional import mse_loss
from gpulayer_nb import teach

def main(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    def net():
        torch.manual_seed(0)
        return nn.Sequential(*[nn.Linear(256, 256, bias=False) for _ in range(4)])
    inputs, targets = torch.randn(8, 256), torch.zeros(8, 256)
    told = {}
    for overlap in (False, True):
        model = net()
        steps = teach.time_steps(model, inputs, targets, mse_loss, overlap=overlap, steps=3, bucket_mb=0.2)
        told[str(overlap)] = [[s.forward, s.backward, s.optimizer, s.buckets] for s in steps]
        told[f"weight {overlap}"] = model[0].weight[0, 0].item()
    with open(f"{folder}/{rank}", "w") as file:
        json.dump(told, file)
    os._exit(0)  # torch's own exit with a group that is up may abort

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, args=(folder,), nprocs=2)
        print(json.dumps([json.load(open(f"{folder}/{rank}")) for rank in range(2)]))
"""


def test_spans_have_their_kind_step_and_times_and_a_collective_cut_off_is_a_wait() -> None:
    ticks = count()
    log = teach.RankLog(clock=lambda: float(next(ticks)))
    with log.computing(0):
        pass
    with log.talking(0):
        pass
    with pytest.raises(KeyboardInterrupt), log.talking(1):
        raise KeyboardInterrupt
    assert [(s.kind, s.step, s.start, s.end) for s in log.spans] == [
        ("compute", 0, 0.0, 1.0),
        ("collective", 0, 2.0, 3.0),
        ("wait", 1, 4.0, None),
    ]
    assert repr(log.spans) == "compute 0, collective 0, wait 1"


@pytest.mark.slow
def test_steps_are_timed_on_two_ranks_by_hand_and_with_ddp(tmp_path) -> None:
    (tmp_path / "ranks.py").write_text(RANKS)  # spawn imports it again, so it has to be a file
    done = subprocess.run([sys.executable, "ranks.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert first["weight True"] == pytest.approx(second["weight True"], abs=1e-7)
    assert first["weight True"] == pytest.approx(first["weight False"], abs=1e-6)
    for told in (first, second):
        for forward, backward, optimizer, buckets in (*told["True"], *told["False"]):
            assert forward[0] < forward[1] <= backward[0] < backward[1] <= optimizer[0] < optimizer[1]
            assert len(buckets) >= 4
            assert all(forward[1] <= start < end <= optimizer[0] for _, start, end in buckets)
        assert all(start >= backward[1] for _, backward, _, buckets in told["False"] for _, start, _ in buckets)
        assert any(start < backward[1] for _, backward, _, buckets in told["True"] for _, start, _ in buckets)
