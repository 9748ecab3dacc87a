"""Faults at random moments of a 2 × 2 run: every one ends within its limit with the right message, and a sound run follows.

`GPULAYER_FAULTS=60 pytest -m faults` runs the whole campaign; without the variable a part of it. `GPULAYER_FAULT_SEED` chooses
another one.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpulayer_nb.process import children_of, start_ticks
from gpulayer_nb.records.cluster_folder import clusters_root
from gpulayer_nb.records.worker_state import WorkerState

pytestmark = pytest.mark.faults

COUNT = int(os.environ.get("GPULAYER_FAULTS", "14"))
SEED = int(os.environ.get("GPULAYER_FAULT_SEED", "20260101"))
LIMIT_SECONDS = 15.0  # for what the heartbeat has to find out; everything else is faster, see below

SETUP = """
import os, signal, sys, time
x = torch.linspace(-1, 1, 64).reshape(-1, 1); data = TensorDataset(x, 3 * x - 1)
ACTIONS = {
    'raise': lambda: (_ for _ in ()).throw(ValueError('injected')),
    'exit 0': lambda: os._exit(0), 'exit 1': lambda: os._exit(1),
    'SIGKILL': lambda: os.kill(os.getpid(), signal.SIGKILL), 'SIGSTOP': lambda: os.kill(os.getpid(), signal.SIGSTOP),
    'stuck': lambda: time.sleep(60),
    'SIGSEGV': lambda: os.kill(os.getpid(), signal.SIGSEGV), 'sys.exit': lambda: sys.exit(3),
}
class Inject:
    def __init__(self, action, phase, rank, at):
        self.action, self.phase, self.rank, self.at, self.seen = action, phase, rank, at, 0
    def __call__(self, phase):
        if phase != self.phase or int(os.environ['RANK']) != self.rank: return
        self.seen += 1
        if self.seen == self.at: ACTIONS[self.action]()
class Loss(nn.Module):
    def __init__(self, inject): super().__init__(); self.inject = inject
    def forward(self, pred, target):
        time.sleep(0.01)
        self.inject('step' if torch.is_grad_enabled() else 'validation')
        return ((pred - target) ** 2).mean()
class Watch(glt.Callback):
    def __init__(self, inject): self.inject = inject
    def on_save_checkpoint(self, *args): self.inject('checkpoint')
    def on_train_end(self, *args): self.inject('shutdown')
class Crashing(Dataset):
    def __init__(self, at): self.at = at
    def __len__(self): return 64
    def __getitem__(self, i):
        if i == self.at and torch.utils.data.get_worker_info() is not None: os.kill(os.getpid(), signal.SIGKILL)
        return x[i], 3 * x[i] - 1
"""
CELL = """%%gpulayer --nodes 2 --devices 2 --epochs 4{options}
inject = Inject({action!r}, {phase!r}, {rank}, {at})
inject('cell')
model = nn.Linear(1, 1)
train_loader = DataLoader({dataset}, batch_size=2, shuffle=True{workers}); val_loader = DataLoader(data, batch_size=4)
loss_fn = Loss(inject); optimizer = torch.optim.SGD(model.parameters(), lr=.1); callbacks = [Watch(inject)]
"""
RENDEZVOUS = """%%ranks
import gpulayer_nb.engine.group as made_group
def faulty(*args, real=made_group._init_process_group, **kwargs):
    made_group._init_process_group = real
    ACTIONS[{action!r}]()
    return real(*args, **kwargs)
if rank == {rank}:
    made_group._init_process_group = faulty
"""
SOUND = "%%ranks --nodes 2 --devices 2\nx_ = torch.ones(1); dist.all_reduce(x_); int(x_)"
PHASES = {  # how often each comes, at most
    "start": 1, "rendezvous": 1, "cell": 1, "step": 20, "validation": 8, "checkpoint": 1, "shutdown": 1,
}  # fmt: skip
ON_RANK_ZERO_ONLY = ("checkpoint",)
SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGSEGV": signal.SIGSEGV}
BY_ITSELF = ("raise", "exit 0", "exit 1", "SIGKILL", "SIGSTOP", "SIGSEGV", "sys.exit")  # what a rank does to itself
FROM_OUTSIDE = ("interrupt", "double interrupt")
ANYWHERE = ("loader", "unpicklable", "full disk")  # have a moment of their own
ACTIONS = (*BY_ITSELF, *FROM_OUTSIDE, *ANYWHERE)
IN_PHASE = {"start": (*SIGNALS, *FROM_OUTSIDE), "rendezvous": (*BY_ITSELF, *FROM_OUTSIDE)}  # all in the others


@dataclass(frozen=True)
class Fault:
    action: str
    phase: str
    rank: int
    at: int
    seconds: float  # when the interrupt or the signal comes

    def __str__(self) -> str:
        return f"{self.action} in {self.phase} on rank {self.rank}, time {self.at}"


def chosen() -> list[Fault]:
    """Every action and every phase once, then at random."""
    drawn = random.Random(SEED)
    faults = []
    phases = list(PHASES)
    for number in range(COUNT):
        action = ACTIONS[number] if number < len(ACTIONS) else drawn.choice(ACTIONS)
        phase = drawn.choice([phase for phase in phases if action in IN_PHASE.get(phase, ACTIONS)])
        if len(ACTIONS) <= number < len(ACTIONS) + 2:
            phase = phases[number - len(ACTIONS)]
            action = drawn.choice(IN_PHASE[phase])
        rank = 0 if phase in ON_RANK_ZERO_ONLY else drawn.randrange(4)
        faults.append(Fault(action, phase, rank, drawn.randint(1, PHASES[phase]), drawn.uniform(0.05, 2.5)))
    return faults


def expected(fault: Fault) -> str:
    """What the error has to say, as a pattern."""
    who = rf"[Rr]ank {fault.rank} \(node {fault.rank // 2}, local rank {fault.rank % 2}, worker local"
    number = int(SIGNALS.get(fault.action, 0))
    not_up = rf"|\d of 4 ranks came up: engine {fault.rank} ended with signal {number}" if fault.phase == "start" else ""
    return {
        "raise": rf"ValueError: injected — {who}",
        "sys.exit": rf"SystemExit: 3 — {who}",
        "exit 0": rf"{who}, pid \d+\) ended with exit code 0",
        "exit 1": rf"{who}, pid \d+\) ended with exit code 1",
        "SIGKILL": rf"{who}, pid \d+\) was killed by signal 9, often out of memory{not_up}",
        "SIGSEGV": rf"{who}, pid \d+\) was ended by signal 11{not_up}",
        "SIGSTOP": rf"{who}, pid \d+\)",
        "loader": r"DataLoader worker (\(pid.* )?(is killed by signal: Killed|exited unexpectedly)",
        "unpicklable": r"The training is done, but `model` cannot be sent to the notebook: its attribute lock .* Its weights",
        "full disk": r"No space left on device",
        "interrupt": r"RunStopped: (stopped|the run had finished)",
        "double interrupt": r"RunStopped: (stopped|the run had finished)",
    }[fault.action]


def cell_of(fault: Fault, number: int) -> str:
    """The training cell with its fault inside, if it has one of its own."""
    inside = fault.action in BY_ITSELF and fault.phase not in ("start", "rendezvous")
    return CELL.format(
        options=f" --timeout {100 + number}" if fault.phase == "rendezvous" else "",  # another limit: a new group
        action=fault.action if inside else "none",
        phase=fault.phase if inside else "never",
        rank=fault.rank,
        at=fault.at,
        dataset=f"Crashing({fault.at})" if fault.action == "loader" else "data",
        workers=", num_workers=1" if fault.action == "loader" else "",
    ) + ("model.lock = __import__('threading').Lock()\n" if fault.action == "unpicklable" else "")


def pid_of_a_new_engine(notebook, slot: int, old: int | None, limit_seconds: float = 30.0) -> int:
    """The process that takes a slot while ranks start; `old` had it before."""
    kernel = notebook.manager.provisioner.pid
    deadline = time.monotonic() + limit_seconds
    while time.monotonic() < deadline:
        for folder in clusters_root().glob(f"local-{kernel}-*"):
            state = WorkerState.read(folder / "state.json")
            for engine in state.engines if state else ():
                if engine.slot == slot and engine.pid != old and start_ticks(engine.pid) is not None:
                    return engine.pid
        time.sleep(0.005)
    raise AssertionError(f"no new engine in slot {slot}")


def prepare(notebook, fault: Fault) -> None:
    if fault.phase == "start":
        notebook.ok(SOUND.replace("--nodes 2", "--nodes 1"))  # another shape: the cell starts new processes
    else:
        notebook.ok(SOUND)
    if fault.phase == "rendezvous":
        action = "stuck" if fault.action in FROM_OUTSIDE else fault.action
        notebook.ok(RENDEZVOUS.format(action=action, rank=fault.rank))


def strike(notebook, fault: Fault, old: int | None) -> None:
    """What comes from outside while the cell is on."""
    if fault.action in FROM_OUTSIDE:
        time.sleep(fault.seconds)
        notebook.manager.interrupt_kernel()
        if fault.action == "double interrupt":
            time.sleep(0.2)
            notebook.manager.interrupt_kernel()
    elif fault.phase == "start":
        pid = pid_of_a_new_engine(notebook, fault.rank, old)
        time.sleep(fault.seconds / 5)
        if start_ticks(pid) is not None:
            os.kill(pid, SIGNALS[fault.action])


@pytest.mark.parametrize(("number", "fault"), list(enumerate(chosen())), ids=[str(fault) for fault in chosen()])
def test_a_fault_ends_the_run_in_time_with_its_name_and_a_sound_run_follows(notebook, request, number, fault):
    if "Inject" not in notebook.ok("print([n for n in dir() if n == 'Inject'])"):
        notebook.ok(SETUP)
    prepare(notebook, fault)
    if fault.action == "full disk":
        folder = request.getfixturevalue("small_disk")
        notebook.ok(f"home = os.environ.get('GPULAYER_HOME'); os.environ['GPULAYER_HOME'] = {str(folder)!r}")
        notebook.ok(f"open({str(folder / 'filler')!r}, 'wb').write(b'x' * {40_000 + 1_500 * fault.at})")
    old = pid_of_a_new_engine(notebook, fault.rank % 2, None) if fault.phase == "start" else None
    started = time.monotonic()
    running = notebook.send(cell_of(fault, number))
    strike(notebook, fault, old if fault.rank < 2 else None)
    result = notebook.read(running, limit_seconds=60)
    took = time.monotonic() - started
    if fault.action == "full disk":
        notebook.ok("os.environ['GPULAYER_HOME'] = home")
    finished_first = fault.action in FROM_OUTSIDE and result.error is None  # the run was over before it was interrupted
    if not finished_first:
        assert result.error is not None, f"{fault}: no error; {result.text}"
        assert re.search(expected(fault), result.error), f"{fault}: {result.error}"
        assert len([output for output in result.outputs if output["kind"] == "error"]) == 1
        assert "stale result" not in result.text
    assert took < LIMIT_SECONDS + 5, f"{fault}: {took:.1f} s"
    sound = notebook.run(SOUND, limit_seconds=60)
    assert sound.error is None, f"after {fault}: {sound.error}"
    assert sound.text.count("Out: 4") == 4


@pytest.mark.parametrize("number", range(max(1, COUNT // 12)))
def test_a_kernel_that_is_killed_at_any_moment_leaves_nothing(fresh_notebook, number):
    drawn = random.Random(SEED + number)
    kernel = fresh_notebook.manager.provisioner.pid
    fresh_notebook.ok("import torch; from torch import nn\nfrom torch.utils.data import DataLoader, Dataset, TensorDataset")
    fresh_notebook.ok(SETUP)
    fresh_notebook.send(CELL.format(options="", action="none", phase="never", rank=0, at=1, dataset="data", workers=""))
    time.sleep(drawn.uniform(0.2, 9.0))
    below = children_of(kernel)
    os.kill(kernel, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while left := [pid for pid in below if start_ticks(pid) is not None] + list(clusters_root().glob(f"local-{kernel}-*")):
        assert time.monotonic() < deadline, f"left 10 s after the kernel's death: {left}"
        time.sleep(0.05)
    assert not list(Path("/dev/shm").glob(f"gpulayer-*-local-{kernel}-*"))


def test_many_short_runs_whose_model_dies_after_its_last_collective_never_hang(notebook):
    """torch 2.13's gloo can dead-lock when a DDP model and its group are freed together."""
    runs = 200 if COUNT >= 60 else 30
    notebook.ok(SETUP)
    notebook.ok("%%ranks --nodes 1 --devices 2\npass")
    notebook.ok(
        "%%ranks\n"
        "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "def once():\n    m = DDP(nn.Linear(10, 1))\n    for _ in range(3): m(torch.randn(4, 10)).sum().backward()\n"
        "    t = torch.zeros(1); dist.broadcast(t, 0)\n"
    )
    for number in range(runs):
        result = notebook.run("%%ranks\nonce()", limit_seconds=10)
        assert result.error is None, f"run {number}: {result.error}"
