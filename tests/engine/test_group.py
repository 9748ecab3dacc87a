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


NEVER = """
import gpulayer_nb.engine.group as made, gpulayer_nb.engine.failure as failure, socket, time
from torch._C._distributed_c10d import PrefixStore
made.STORE_SECONDS, made.ARRIVAL_SECONDS, made.CONNECT_SECONDS = 2.0, 3.0, 2.0
pair = Topology(1, 2)
"""
UNREACHED = (
    NEVER
    + """
def tried(case, rank, port_):
    began = time.monotonic()
    try:
        keeper.ensure(GroupSpec(key=case, backend='gloo', master_addr='127.0.0.1', master_port=port_, timeout_seconds=60.0,
                                interface='lo'), pair, pair.place(rank))
    except Exception as error:
        print(case, port_, type(error).__name__, failure.is_echo(error, False), time.monotonic() - began < 8, error, sep='|')
tried('absent', 0, port)
PrefixStore('swallowed/0/arrived', keeper._own_store).set('1', ''); tried('swallowed', 0, port)
with socket.socket() as closed: closed.bind(('127.0.0.1', 0)); number = closed.getsockname()[1]
tried('closed', 1, number)
mute = socket.create_server(('127.0.0.1', 0)); tried('mute', 1, mute.getsockname()[1])
"""
)


@pytest.fixture(scope="module")
def unreached():
    """What a rank says for which the rendezvous is closed, answers nothing, or its peer stays away or does not connect."""
    return {line.split("|")[0]: line.split("|") for line in run(UNREACHED).splitlines()}


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("closed", "rank 1 did not reach the rendezvous of rank 0 at 127.0.0.1:{port} on lo"),
        ("mute", "rank 1 did not reach the rendezvous of rank 0 at 127.0.0.1:{port} on lo"),
        ("swallowed", "rank 0 did not reach every other rank at 127.0.0.1:{port} on lo"),
        ("absent", "Rank 1 did not come to the rendezvous in 3 s."),
    ],
)
def test_a_rank_that_cannot_connect_gives_up_in_time_and_says_where(unreached, case, said):
    _, port, kind, is_echo, in_time, message = unreached[case]
    assert (kind, is_echo, in_time) == ("ClusterError", "True", "True")
    assert said.format(port=port) in message
    assert "Next: " in message


def test_a_wait_at_the_rendezvous_can_be_interrupted_and_cut():
    text = run(
        NEVER
        + """
import signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it from its start
threading.Timer(0.5, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)).start()
began = time.monotonic()
try: keeper.ensure(spec('a'), pair, pair.place(0))
except KeyboardInterrupt: print('interrupted', time.monotonic() - began < 2)
threading.Timer(0.5, keeper.abort).start()
try: keeper.ensure(spec('b'), pair, pair.place(0))
except RuntimeError as error: print('cut', failure.is_echo(error, True), time.monotonic() - began < 4)
"""
    )
    assert text.split() == ["interrupted", "True", "cut", "True", "True"]


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


def test_the_store_listens_on_the_address_it_was_given_alone():
    text = run("""
import socket
for address in ('127.0.0.1', '127.0.0.2'):
    with socket.socket() as probe: print(probe.connect_ex((address, port)) == 0)
""")
    assert text.split() == ["True", "False"]


def test_an_interface_that_is_not_there_is_told_at_once_with_those_that_are_and_forgotten_by_the_next_run():
    text = run("""
import os
from dataclasses import replace
try:
    keeper.ensure(replace(spec('a'), env={'GLOO_SOCKET_IFNAME': 'nosuch0', 'MINE': '1'}), shape, shape.place(0))
except Exception as error:
    print(type(error).__name__, error)
keeper.ensure(spec('b'), shape, shape.place(0)); print(os.environ['GLOO_SOCKET_IFNAME'], 'MINE' in os.environ, keeper.is_up)
""")
    said, after = text.splitlines()
    assert said.startswith("ClusterError GLOO_SOCKET_IFNAME is nosuch0, but ") and "it has lo" in said
    assert after.split() == ["lo", "False", "True"]
