"""Faults at random moments of a 2 × 2 run: every one ends within its limit with the right message, and a sound run follows.

`GPULAYER_FAULTS=60 pytest -m faults` runs the whole campaign; without the variable a part of it. `GPULAYER_FAULT_SEED` chooses
another one.
"""

from __future__ import annotations

import os
import random
import re
import time
from dataclasses import dataclass

import pytest

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
CELL = """%%gpulayer --nodes 2 --devices 2 --epochs 4
inject = Inject({action!r}, {phase!r}, {rank}, {at})
inject('cell')
model = nn.Linear(1, 1)
train_loader = DataLoader({dataset}, batch_size=2, shuffle=True{workers}); val_loader = DataLoader(data, batch_size=4)
loss_fn = Loss(inject); optimizer = torch.optim.SGD(model.parameters(), lr=.1); callbacks = [Watch(inject)]
"""
SOUND = "%%ranks --nodes 2 --devices 2\nx_ = torch.ones(1); dist.all_reduce(x_); int(x_)"
PHASES = {"cell": 1, "step": 20, "validation": 8, "checkpoint": 1, "shutdown": 1}  # how often each comes, at most
ON_RANK_ZERO_ONLY = ("checkpoint",)


@dataclass(frozen=True)
class Fault:
    action: str
    phase: str
    rank: int
    at: int
    seconds: float  # when the interrupt comes

    def __str__(self) -> str:
        return f"{self.action} in {self.phase} on rank {self.rank}, time {self.at}"


def chosen() -> list[Fault]:
    drawn = random.Random(SEED)
    actions = [
        "raise",
        "exit 0",
        "exit 1",
        "SIGKILL",
        "SIGSTOP",
        "SIGSEGV",
        "sys.exit",
        "interrupt",
        "double interrupt",
        "loader",
    ]
    faults = []
    for number in range(COUNT):
        action = actions[number % len(actions)] if number < len(actions) else drawn.choice(actions)
        phase = drawn.choice(list(PHASES))
        rank = 0 if phase in ON_RANK_ZERO_ONLY else drawn.randrange(4)
        faults.append(Fault(action, phase, rank, drawn.randint(1, PHASES[phase]), drawn.uniform(0.05, 2.5)))
    return faults


def expected(fault: Fault) -> str:
    """What the error has to say, as a pattern."""
    who = rf"[Rr]ank {fault.rank} \(node {fault.rank // 2}, local rank {fault.rank % 2}, worker local"
    return {
        "raise": rf"ValueError: injected — {who}",
        "sys.exit": rf"SystemExit: 3 — {who}",
        "exit 0": rf"{who}, pid \d+\) ended with exit code 0",
        "exit 1": rf"{who}, pid \d+\) ended with exit code 1",
        "SIGKILL": rf"{who}, pid \d+\) was killed by signal 9, often out of memory",
        "SIGSEGV": rf"{who}, pid \d+\) was ended by signal 11",
        "SIGSTOP": rf"{who}, pid \d+\)",
        "loader": r"DataLoader worker (\(pid.* )?(is killed by signal: Killed|exited unexpectedly)",
        "interrupt": r"RunStopped: (stopped|the run had finished)",
        "double interrupt": r"RunStopped: (stopped|the run had finished)",
    }[fault.action]


@pytest.mark.parametrize("fault", chosen(), ids=str)
def test_a_fault_ends_the_run_in_time_with_its_name_and_a_sound_run_follows(notebook, fault):
    if "Inject" not in notebook.ok("print([n for n in dir() if n == 'Inject'])"):
        notebook.ok(SETUP)
    notebook.ok(SOUND)
    crashing = fault.action == "loader"
    cell = CELL.format(
        action=fault.action if fault.action not in ("interrupt", "double interrupt", "loader") else "none",
        phase=fault.phase if fault.action not in ("interrupt", "double interrupt", "loader") else "never",
        rank=fault.rank,
        at=fault.at,
        dataset=f"Crashing({fault.at})" if crashing else "data",
        workers=", num_workers=1" if crashing else "",
    )
    started = time.monotonic()
    running = notebook.send(cell)
    if "interrupt" in fault.action:
        time.sleep(fault.seconds)
        notebook.manager.interrupt_kernel()
        if fault.action == "double interrupt":
            time.sleep(0.2)
            notebook.manager.interrupt_kernel()
    result = notebook.read(running, limit_seconds=60)
    took = time.monotonic() - started
    finished_first = "interrupt" in fault.action and result.error is None  # the run was over before it was interrupted
    if not finished_first:
        assert result.error is not None, f"{fault}: no error; {result.text}"
        assert re.search(expected(fault), result.error), f"{fault}: {result.error}"
        assert len([output for output in result.outputs if output["kind"] == "error"]) == 1
        assert "stale result" not in result.text
    assert took < LIMIT_SECONDS + 5, f"{fault}: {took:.1f} s"
    sound = notebook.run(SOUND, limit_seconds=30)
    assert sound.error is None, f"after {fault}: {sound.error}"
    assert sound.text.count("Out: 4") == 4


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
