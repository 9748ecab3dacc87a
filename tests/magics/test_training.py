import re
from pathlib import Path
from statistics import median

import pytest

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import RankStatus
from gpulayer_nb.records.run_folder import records_of

LINE = """
class Line(nn.Module):
    def __init__(self):
        super().__init__(); self.w = nn.Parameter(torch.zeros(1))
    def forward(self, x): return self.w * x
x = torch.arange(1., 9.); line_set = TensorDataset(x, 2 * x)
model = Line(); same = model
"""
FIT = (
    "train_loader = DataLoader(line_set, batch_size={batch})\n"
    "loss_fn = nn.MSELoss(); optimizer = torch.optim.SGD(model.parameters(), lr=.01)"
)


@pytest.mark.parametrize(("nodes", "batch"), [(2, 2), (1, 4)])
def test_trained_weights_come_back_in_place_and_a_second_run_continues(notebook, nodes, batch):
    notebook.ok(LINE)
    for expected in ("1.02", "1.5198"):
        notebook.ok(f"%%gpulayer --nodes {nodes} --devices 2\n" + FIT.format(batch=batch))
        assert notebook.ok("print(round(model.w.item(), 4), same is model, type(model).__name__)").split() == [
            expected,
            "True",
            "Line",
        ]


@pytest.mark.parametrize(("batch", "expected"), [(2, "1.779"), (4, "1.02")])
def test_two_ranks_equal_one_process_at_the_global_batch_and_the_header_says_so(notebook, batch, expected):
    notebook.ok(LINE)
    result = notebook.run("%%gpulayer --nodes 1 --devices 2\n" + FIT.format(batch=batch))
    assert result.error is None
    assert notebook.ok("print(round(model.w.item(), 4))").strip() == expected
    html = result.outputs[-1]["data"]["text/html"]
    assert f"1 node × 2 devices = 2 ranks · batch {batch} × 2 = global batch {2 * batch} · learning rate unchanged · gloo" in html


def test_a_run_leaves_one_output_with_a_picture_a_table_and_a_text(notebook):
    notebook.ok(LINE)
    result = notebook.run("%%gpulayer --nodes 2 --devices 2 --epochs 3\n" + FIT.format(batch=2))
    assert result.error is None, result.error
    assert len(result.outputs) <= 2
    assert {"image/png", "text/html", "text/plain"} <= set(result.outputs[-1]["data"])


def test_a_model_made_in_the_cell_appears_in_the_notebook(notebook):
    notebook.ok(LINE + "\ndel model, same")
    notebook.ok("%%gpulayer --nodes 1 --devices 2 --as kept\nmodel = Line()\n" + FIT.format(batch=4))
    printed = notebook.ok("print(round(model.w.item(), 4), type(model) is Line, kept is glt.runs[-1], kept.model is model)")
    assert printed.split() == ["1.02", "True", "True", "True"]
    notebook.ok("%%gpulayer --nodes 1 --devices 2\n" + FIT.format(batch=4))  # the ranks still have it, and so has the notebook
    assert notebook.ok("print(round(model.w.item(), 4))").strip() == "1.5198"


def test_classes_lambdas_and_closures_of_the_notebook_work_on_the_ranks_also_with_loader_workers(notebook):
    notebook.ok(
        """
def add(k): return lambda v: 2 * v + k
class Numbers(Dataset):
    def __init__(self, transform): self.transform = transform
    def __len__(self): return 6
    def __getitem__(self, i): return float(self.transform(i))
class Adds(glt.Module):
    def __init__(self):
        super().__init__(); self.w = nn.Parameter(torch.zeros(1)); self.seen = 0.0
    def training_step(self, batch, i):
        self.seen += batch.sum().item(); print('sum', int(self.seen)); self.log('total', batch.sum(), batch_size=1)
        return (self.w * batch).sum()
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=0.1)
numbers = Numbers(add(1)); collate = lambda items: torch.tensor(items)
"""
    )
    for workers in (0, 2):
        notebook.ok(
            "%%gpulayer --nodes 1 --devices 2\nmodel = Adds()\n"
            f"train_loader = DataLoader(numbers, batch_size=3, collate_fn=collate, num_workers={workers})"
        )
        logs = notebook.ok("print([glt.runs[-1].logs[r].split()[-1] for r in range(2)])").strip()
        assert logs == "['15', '21']", f"with {workers} loader workers"


def test_the_cell_may_call_the_trainer_itself(notebook):
    notebook.ok(LINE)
    notebook.ok(
        """
class Own(glt.Module):
    def __init__(self):
        super().__init__(); self.w = nn.Parameter(torch.zeros(1))
    def training_step(self, batch, i):
        a, b = batch; loss = ((self.w * a - b) ** 2).mean(); self.log('loss', loss); return loss
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=.01)
model = Own()
"""
    )
    notebook.ok(
        "%%gpulayer --nodes 1 --devices 2\n"
        "trainer = glt.Trainer(max_epochs=1, devices=2)\nresult = trainer.fit(model, DataLoader(line_set, batch_size=4))"
    )
    assert notebook.ok("print(round(model.w.item(), 4))").strip() == "1.02"


def test_the_trainer_from_the_notebook_gives_the_same_as_the_magic(notebook):
    notebook.ok(LINE)
    notebook.ok("%%gpulayer --nodes 1 --devices 2\n" + FIT.format(batch=4))
    notebook.ok(
        """
class Own(glt.Module):
    def __init__(self):
        super().__init__(); self.w = nn.Parameter(torch.zeros(1))
    def training_step(self, batch, i):
        a, b = batch; loss = ((self.w * a - b) ** 2).mean(); self.log('loss', loss); return loss
    def validation_step(self, batch, i): self.log('index', batch[0].mean())
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=.01)
own = Own(); v = torch.arange(10.)
run = glt.Trainer(max_epochs=1, accelerator='cpu', devices=2, num_nodes=1).fit(
    own, DataLoader(line_set, batch_size=4), DataLoader(TensorDataset(v), batch_size=2))
"""
    )
    printed = notebook.ok("print(round(own.w.item(), 4), run.metrics['index'], run.state, run.model is own)").split()
    assert printed == ["1.02", "4.5", "finished", "True"]


def test_the_table_of_ranks_is_the_same_in_the_trainer(notebook):
    notebook.ok(LINE)
    notebook.ok(
        """
class Tells(glt.Module):
    def __init__(self):
        super().__init__(); self.w = nn.Parameter(torch.zeros(1))
    def training_step(self, batch, i):
        import os; e = os.environ
        words = 'RANK GROUP_RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE'.split()
        print(self.global_rank, self.local_rank, *(e[word] for word in words))
        return (self.w * batch[0]).sum()
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=.01)
run = glt.Trainer(devices=2, num_nodes=2).fit(Tells(), DataLoader(line_set, batch_size=2))
"""
    )
    assert notebook.ok("print([log.strip() for log in run.logs])").strip() == str(
        ["0 0 0 0 0 4 2", "1 1 1 0 1 4 2", "2 0 2 1 0 4 2", "3 1 3 1 1 4 2"]
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--devices 0", "UsageError: --devices is 0; it is a whole number of at least 1, for example `--devices 2`."),
        ("--devices -1", "UsageError: --devices is -1; it is a whole number of at least 1, for example `--devices 2`."),
        ("--devices 1.5", "UsageError: --devices is 1.5; it is a whole number of at least 1, for example `--devices 2`."),
        ("--devicse 2", "UsageError: %%gpulayer knows no option --devicse. Did you mean --devices?"),
        ("--epochs", "UsageError: %%gpulayer: argument --epochs: expected one argument. `%%gpulayer?` shows the options."),
        ("--precision 64", "UsageError: --precision is 64; it is one of 32, bf16-mixed, 16-mixed."),
        (
            "--target mars",
            (
                "UsageError: target is 'mars': there is no such file, no cluster of this name runs on this machine (none does), "
                "and no ipyparallel profile of this name has a connection file. "
                "Next: `gpulayer controller start`, `ipcluster start --profile=NAME`, or `--target local`."
            ),
        ),
        ("--accelerator tpu", "UsageError: --accelerator is 'tpu'; it is one of auto, cpu, cuda, mps."),
        (
            "--accelerator cuda --devices 2",
            (
                "PlanError: 0 GPUs found on worker local, 2 asked (1 node × 2 devices = 2 ranks). Nothing was started. "
                "Next: `--accelerator cpu`."
            ),
        ),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_is_one_line_with_the_right_form(notebook, line, words):
    result = notebook.run(f"%%gpulayer {line}\nx = 1")
    assert result.error == words
    assert len(result.traceback.splitlines()) == 1
    assert result.text == ""


def test_a_cell_with_nothing_to_fit_says_what_was_looked_for_and_what_is_there(notebook):
    notebook.ok(LINE + "\ndel model, same\n%gpulayer down")
    notebook.ok("net = Line(); loader = DataLoader(line_set, batch_size=2)")
    result = notebook.run("%%gpulayer --nodes 1 --devices 2\nnet, loader")
    assert result.error == (
        "UsageError: Nothing to fit: the cell has no model and no train_loader. It has net and loader. "
        "Next: `%%gpulayer --model net --loader loader`, or `%%ranks` to run it as it is."
    )
    notebook.ok(
        "%%gpulayer --model net --loader loader\nloss_fn = nn.MSELoss(); optimizer = torch.optim.SGD(net.parameters(), lr=.01)"
    )
    assert notebook.ok("print(net.w.item() > 1)").strip() == "True"


def test_a_plain_module_without_loss_and_optimizer_is_told_what_to_write(notebook):
    notebook.ok(LINE + "\n%gpulayer down")
    result = notebook.run("%%gpulayer --nodes 1 --devices 2\ntrain_loader = DataLoader(line_set, batch_size=2)")
    assert re.match(
        r"UsageError: `model` \(Line\) is a plain nn.Module, and the cell has no loss_fn and no optimizer\. Next: write ",
        result.error,
    )
    assert "`optimizer = torch.optim.SGD(model.parameters(), lr=0.1)`" in result.error


def test_an_optimizer_of_another_model_is_refused_instead_of_training_nothing(notebook):
    notebook.ok(LINE)
    result = notebook.run(
        "%%gpulayer --nodes 1 --devices 2\nother = Line(); train_loader = DataLoader(line_set, batch_size=2)\n"
        "loss_fn = nn.MSELoss(); optimizer = torch.optim.SGD(other.parameters(), lr=.01)"
    )
    assert result.error is not None
    assert "optimizer" in result.error


def test_what_cannot_be_sent_is_named_with_its_path(notebook):
    notebook.ok("import threading\nclass Holds:\n    def __init__(self): self.lock = threading.Lock()\nholder = Holds()")
    result = notebook.run("%%ranks --nodes 1 --devices 2\nholder")
    assert result.error.startswith("ShippingError: ")
    for word in ("holder", "Holds", "lock"):
        assert word in result.error


def test_a_failed_training_leaves_the_notebooks_model_as_it_was(notebook):
    notebook.ok(LINE)
    result = notebook.run(
        "%%gpulayer --nodes 1 --devices 2 --epochs 3\n" + FIT.format(batch=2)
        + "\nclass Late:\n    calls = 0\n    def __call__(self, p, t):\n        self.calls += 1\n"
        "        if rank == 1 and self.calls > 4: raise ValueError('late')\n        return p.mean()\n"
        "metrics = {'m': Late()}"
    )  # fmt: skip
    assert result.error.startswith("RunFailed: ValueError: late — rank 1 (node 0, local rank 1, worker local), epoch ")
    assert " line 8." in result.error
    assert notebook.ok("print(model.w.item(), glt.runs[-1].state)").split() == ["0.0", "failed"]


def test_after_a_failed_training_the_next_one_starts_from_the_notebooks_model(notebook):
    notebook.ok(LINE)
    fails = "\nmetrics = {'m': lambda p, t: 1 / 0 if p.mean() > 3 else p.mean()}"
    failed = notebook.run("%%gpulayer --nodes 1 --devices 2 --epochs 5\n" + FIT.format(batch=2) + fails)
    assert "ZeroDivisionError" in failed.error
    notebook.ok("%%gpulayer --nodes 1 --devices 2\n" + FIT.format(batch=4))
    assert notebook.ok("print(round(model.w.item(), 4))").strip() == "1.02"


def test_layers_made_on_the_ranks_only_give_a_warning_and_the_rest_comes_back(notebook):
    notebook.ok(LINE)
    result = notebook.run(
        "%%gpulayer --nodes 1 --devices 2\nmodel.extra = nn.Linear(1, 1); model.extra.requires_grad_(False)\n"
        + FIT.format(batch=4)
    )
    assert result.error is None
    assert "extra.weight, extra.bias of `model` were made on the ranks only" in result.text
    assert notebook.ok("print(round(model.w.item(), 4), hasattr(model, 'extra'))").split() == ["1.02", "False"]


def test_optional_parts_of_an_earlier_cell_are_not_those_of_the_next(notebook):
    notebook.ok(LINE)
    cell = "%%gpulayer --nodes 1 --devices 2\n" + FIT.format(batch=4)
    notebook.ok(cell + "\nmetrics = {'shown': lambda p, t: p.mean()}\nval_loader = DataLoader(line_set, batch_size=4)")
    assert notebook.ok("print(sorted(glt.runs[-1].metrics))").strip() == "['loss', 'shown', 'val_loss', 'val_shown']"
    notebook.ok(cell)
    assert notebook.ok("print(sorted(glt.runs[-1].metrics))").strip() == "['loss']"
    notebook.ok("val_loader = DataLoader(line_set, batch_size=4)")
    notebook.ok(cell)
    assert notebook.ok("print(sorted(glt.runs[-1].metrics))").strip() == "['loss', 'val_loss']"


def test_the_runs_picture_shows_itself_where_pyplot_was_never_imported(notebook):
    notebook.ok(LINE)
    notebook.ok("%%gpulayer --nodes 1 --devices 2\n" + FIT.format(batch=2))
    shown = notebook.run("glt.runs[-1].plot()").outputs[-1]
    assert "image/png" in shown["data"]
    assert shown["metadata"]["image/png"]["alt"].startswith("curves up to step 2; loss: ")


LATE = """%%gpulayer --nodes 1 --devices 2 --max-steps 100
import os, time
class Late(nn.Module):
    def __init__(self): super().__init__(); self.w = nn.Parameter(torch.zeros(1))
    def forward(self, x):
        time.sleep(0.03 if os.environ["RANK"] == "1" else 0.002); return self.w * x
model = Late(); x = torch.arange(64.); train_loader = DataLoader(TensorDataset(x, x), batch_size=1)
loss_fn = nn.MSELoss(); optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)"""


def test_the_rank_that_the_others_wait_for_is_known_by_the_time_it_takes_alone(notebook):
    """All ranks of a run do as many steps a second: the fast ones wait in the exchange."""
    notebook.ok(LATE)
    folder = Path(notebook.ok("print(glt.runs[-1].folder)").strip())
    own, rows = {}, []
    history = RunHistory()
    lines = [*(folder / "records.jsonl").read_text().splitlines(), *(folder / "logs" / "rank-1.jsonl").read_text().splitlines()]
    records = [record for line in lines for record in records_of(line)]
    for record in sorted(records, key=lambda record: record.time):
        history.apply(record)
        if isinstance(record, RankStatus) and record.own_seconds is not None:
            own.setdefault(record.rank, []).append(record.own_seconds)
            rows.append([row.is_straggler for row in history.rank_rows()])
    assert 0.03 < median(own[1]) < 0.1
    assert median(own[0]) < median(own[1]) - 0.015
    assert [False, True] in rows
    assert [True, False] not in rows
