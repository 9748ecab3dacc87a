import subprocess
import sys

import pytest

ALONE = """
import torch, torch.distributed as dist
from gpulayer_nb.engine.group import GroupKeeper
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.records.run_spec import GroupSpec
keeper = GroupKeeper(); keeper.face_scripts()
shape = Topology(1, 1)
def spec(key, backend='gloo'):
    return GroupSpec(key=key, backend=backend, master_addr='127.0.0.1', master_port=port, timeout_seconds=20.0, interface='lo')
port = keeper.open_store('127.0.0.1')
"""


def run(source: str) -> str:
    """In a process of its own: a group sets torchrun's variables."""
    done = subprocess.run([sys.executable, "-c", ALONE + source], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_group_is_kept_while_its_key_stays_and_made_anew_for_another():
    text = run("""
keeper.ensure(spec('a'), shape, shape.place(0)); first = dist.group.WORLD
keeper.ensure(spec('a'), shape, shape.place(0)); print(dist.group.WORLD is first)
keeper.ensure(spec('b'), shape, shape.place(0)); print(dist.group.WORLD is first, dist.get_world_size())
""")
    assert text.split() == ["True", "False", "1"]


def test_a_script_may_init_destroy_and_init_again():
    text = run("""
keeper.ensure(spec('a'), shape, shape.place(0))
for _ in range(3):
    dist.init_process_group('gloo'); x = torch.ones(1); dist.all_reduce(x); print(int(x), end=' '); dist.destroy_process_group()
print(dist.is_initialized(), keeper.is_up)
""")
    assert text.split() == ["1", "1", "1", "False", "False"]


def test_after_an_abort_the_group_is_down_and_the_next_key_brings_one_up():
    text = run("""
keeper.ensure(spec('a'), shape, shape.place(0)); keeper.abort(); print(keeper.is_up)
keeper.ensure(spec('b'), shape, shape.place(0)); print(keeper.is_up)
""")
    assert text.split() == ["False", "True"]


def test_nccl_is_aborted_by_its_own_means_once_a_group():
    """NCCL needs a GPU; what stands in for it here is the one function of torch that would be called."""
    text = run("""
from torch.distributed import distributed_c10d
keeper.ensure(spec('a'), shape, shape.place(0))
object.__setattr__(keeper._spec, 'backend', 'nccl')
calls = []
def stand_in():
    calls.append(1); distributed_c10d._update_default_pg(None)
distributed_c10d._abort_process_group = stand_in
keeper.abort(); keeper.abort(); print(len(calls), keeper.is_up)
""")
    assert text.split() == ["1", "False"]


@pytest.mark.gpu
def test_nccl_really_aborts_on_a_gpu_and_a_new_group_works():
    text = run("""
torch.cuda.set_device(0)
keeper.ensure(spec('a', 'nccl'), shape, shape.place(0)); x = torch.ones(1, device='cuda'); dist.all_reduce(x); print(int(x))
keeper.abort(); print(keeper.is_up)
keeper.ensure(spec('b', 'nccl'), shape, shape.place(0)); dist.all_reduce(x); torch.cuda.synchronize(); print(int(x))
""")
    assert text.split() == ["1", "False", "1"]
