import os
import signal
import subprocess
import sys
import time

from gpulayer_nb.process import children_of, is_running, kill_if_same, start_ticks


def wait_until(condition, seconds=5.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_is_known_by_its_pid_and_its_start():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ticks = start_ticks(child.pid)
    assert is_running(child.pid, ticks)
    assert not is_running(child.pid, ticks + 1)
    assert not kill_if_same(child.pid, ticks + 1)
    assert child.poll() is None
    assert kill_if_same(child.pid, ticks)
    assert child.wait(timeout=5) == -signal.SIGKILL
    assert start_ticks(child.pid) is None


def test_a_process_that_only_waits_to_be_reaped_is_gone():
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    wait_until(lambda: start_ticks(child.pid) is None)
    child.wait(timeout=5)


def test_a_child_dies_with_its_parent_also_when_that_is_killed():
    source = (
        "import os, sys, time\nfrom gpulayer_nb.process import die_with_parent\nparent = os.getpid()\n"
        "pid = os.fork()\nif pid == 0:\n    die_with_parent(parent); time.sleep(60)\nprint(pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    assert children_of(os.getpid()).count(child) == 1
    time.sleep(0.2)  # until the child has asked for it
    parent.kill()
    parent.wait(timeout=5)
    wait_until(lambda: start_ticks(child) is None)


def test_a_fork_whose_parent_is_killed_before_it_asks_to_die_with_it_ends_too():
    source = (
        "import os, time\nfrom gpulayer_nb.process import forks_die_with_us\n"
        "os.register_at_fork(after_in_child=lambda: time.sleep(1))\n"  # hooks in a child run in the order they were registered
        "forks_die_with_us()\npid = os.fork()\nif pid == 0:\n    time.sleep(60)\nprint(pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    assert start_ticks(child) is not None
    parent.kill()
    parent.wait(timeout=5)
    wait_until(lambda: start_ticks(child) is None, 10)


def test_forks_of_forks_die_with_the_one_that_forked_them():
    source = (
        "import os, time\nfrom gpulayer_nb.process import forks_die_with_us\nforks_die_with_us()\n"
        "pid = os.fork()\nif pid == 0:\n    pid = os.fork()\n    if pid:\n        print(os.getpid(), pid, flush=True)\n"
        "time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    child, grandchild = map(int, parent.stdout.readline().split())
    wait_until(lambda: children_of(child) == [grandchild])
    time.sleep(0.2)  # until the grandchild has asked for it
    assert start_ticks(grandchild) is not None
    kill_if_same(child, start_ticks(child))
    wait_until(lambda: start_ticks(grandchild) is None)
    parent.kill()
    parent.wait(timeout=5)
