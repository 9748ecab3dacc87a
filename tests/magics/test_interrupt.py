import os
import time
from pathlib import Path

import pytest
from at_work import send_at_work, send_training

STEP_SECONDS = 0.05

SLOW = f"""
import time
class Slow(nn.Module):
    def __init__(self):
        super().__init__(); self.w = nn.Parameter(torch.zeros(1))
    def forward(self, x):
        time.sleep({STEP_SECONDS}); return self.w * x
data = TensorDataset(torch.arange(4000.), torch.arange(4000.))
model = Slow()
"""
TRAIN = """%%gpulayer --nodes 2 --devices 2 --epochs 50
train_loader = DataLoader(data, batch_size=2)
loss_fn = nn.MSELoss(); optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)"""


def interrupted(notebook, msg_id, seconds=0.3):
    """Interrupts the kernel a while after its cell is at work; the result with the seconds since the interrupt."""
    time.sleep(seconds)
    notebook.manager.interrupt_kernel()
    return notebook.read(msg_id, limit_seconds=30)


def interrupted_ranks(notebook, body):
    return interrupted(notebook, send_at_work(notebook, f"%%ranks\n{body}"))


def interrupted_training(notebook, cell):
    return interrupted(notebook, send_training(notebook, cell, Path(os.environ["GPULAYER_HOME"])))


@pytest.fixture(autouse=True)
def _four_ranks(notebook):
    notebook.ok("%%ranks --nodes 2 --devices 2\nkeep = 40 + rank")


def still_works(notebook):
    text = notebook.ok("%%ranks\nx = torch.ones(1); dist.all_reduce(x)\n(keep, int(x))")
    assert text.splitlines() == [f"[rank {r}] Out: ({40 + r}, 4)" for r in range(4)]


def test_an_interrupted_training_stops_after_a_common_step_and_brings_its_weights(notebook):
    notebook.ok(SLOW)
    result = interrupted_training(notebook, TRAIN)
    assert result.seconds < 2.0
    assert result.error.startswith("RunStopped: stopped after step ")
    step = int(result.error.split("step ")[1].split()[0])
    assert notebook.ok("print(glt.runs[-1].state, len(glt.runs[-1].history), model.w.item() != 0)").split() == [
        "stopped",
        str(step),
        "True",
    ]
    still_works(notebook)


@pytest.mark.parametrize(
    "body",
    [
        "if rank == 0:\n    dist.barrier()",
        "import time\ntime.sleep(60)",
        "while True:\n    dist.all_reduce(torch.ones(1))",
        "import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException:\n        if rank: raise\n        break",
    ],
    ids=["blocked in a collective", "asleep", "busy", "catching everything"],
)
def test_an_interrupted_cell_gives_the_notebook_back(notebook, body):
    result = interrupted_ranks(notebook, body)
    assert result.seconds < 5.0, result.error
    if "except" not in body:
        assert result.error.startswith("RunStopped: stopped on 4 ranks; variables are kept.")
        still_works(notebook)


@pytest.mark.slow
def test_big_collectives_in_full_swing_are_left_by_every_rank(notebook):
    """A cut in the middle of a send must not leave its sender waiting: its engine would be ended, its variables lost."""
    for _ in range(12):
        result = interrupted_ranks(notebook, "x = torch.ones(4_000_000)\nwhile True:\n    dist.all_reduce(x)")
        assert result.error.startswith("RunStopped: stopped on 4 ranks; variables are kept."), result.error
    still_works(notebook)


def test_a_rank_that_ignores_every_interrupt_is_ended_and_replaced(notebook):
    body = (
        "import time\nend = time.time() + 60\nwhile time.time() < end:\n    try:\n        time.sleep(60)\n"
        "    except BaseException:\n        pass"
    )
    result = interrupted_ranks(notebook, body)
    assert result.seconds < 8.0
    assert "did not answer, so their engines were ended" in result.error
    assert notebook.ok("%%ranks\nx = torch.ones(1); dist.all_reduce(x); int(x)", limit_seconds=20).count("Out: 4") == 4


def test_an_interrupt_during_the_start_leaves_nothing_half_started(fresh_notebook):
    msg_id = fresh_notebook.send("%%ranks --nodes 1 --devices 2\nrank")
    time.sleep(1.0)
    fresh_notebook.manager.interrupt_kernel()
    result = fresh_notebook.read(msg_id, limit_seconds=30)
    assert result.error.startswith("RunStopped: stopped before the ranks were at work; nothing ran.")
    assert fresh_notebook.ok("%%ranks --nodes 1 --devices 2\nrank").splitlines() == ["[rank 0] Out: 0", "[rank 1] Out: 1"]


def test_after_an_interrupted_run_the_next_one_starts_at_once(notebook):
    before = notebook.ok("import os; print(sorted(os.environ.items()))")
    notebook.ok(SLOW)
    interrupted_training(notebook, TRAIN)
    result = notebook.run("%%ranks\nx = torch.ones(1); dist.all_reduce(x); int(x)")
    assert result.text.count("Out: 4") == 4
    assert result.seconds < 2
    assert notebook.ok("import os; print(sorted(os.environ.items()))") == before


def test_a_stopped_run_resumed_equals_one_that_was_never_stopped(notebook):
    notebook.ok(SLOW + "\nx = torch.linspace(-1, 1, 64); data = TensorDataset(x, 3 * x)")
    cell = (
        "%%gpulayer --nodes 2 --devices 2 --epochs 5 {resume}\n"
        "model = Slow()\ntrain_loader = DataLoader(data, batch_size=2, shuffle=True)\n"
        "loss_fn = nn.MSELoss(); optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)"
    )
    notebook.ok(cell.format(resume="--seed 3"))
    whole = float(notebook.ok("print(repr(model.w.item()))"))
    stopped = interrupted_training(notebook, cell.format(resume="--seed 3"))
    assert stopped.error.startswith("RunStopped: stopped after step "), stopped.error
    assert float(notebook.ok("print(repr(model.w.item()))")) != whole
    notebook.ok(cell.format(resume="--seed 3 --resume last"))
    assert abs(float(notebook.ok("print(repr(model.w.item()))")) - whole) < 1e-6
    steps = notebook.ok("print(glt.runs[-1].history[0]['global_step'], glt.runs[-1].history[-1]['global_step'])").split()
    assert int(steps[0]) > 1
    assert steps[1] == "40"
