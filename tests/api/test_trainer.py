"""`glt.Trainer` from a notebook: fit, validate, test, predict, checkpoints and loggers through real ranks."""

from __future__ import annotations

from typing import Any

import pytest

MODEL = """
from torch.utils.data import IterableDataset
x = torch.arange(1., 9.); line_set = TensorDataset(x, 2 * x)
class Own(glt.Module):
    def __init__(self):
        super().__init__(); self.w = nn.Parameter(torch.zeros(1)); self.seen = []
    def training_step(self, batch, i):
        a, b = batch; loss = ((self.w * a - b) ** 2).mean(); self.log('loss', loss); return loss
    def validation_step(self, batch, i):
        self.log('index', batch[0].mean()); self.log('w', self.w)
    def test_step(self, batch, i):
        self.seen.append(batch[0]); self.log('test_index', batch[0].mean())
    def on_test_epoch_end(self):
        everything = self.trainer.gather(torch.cat(self.seen) if self.seen else torch.zeros(0))
        self.seen.clear()
        self.log('spread', everything.std(correction=0)); self.log('count', len(everything))
    def predict_step(self, batch, i): return batch[0] * 10
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=.01)
def trainer(**options): return glt.Trainer(**{'devices': 2, 'accelerator': 'cpu', **options})
numbers = TensorDataset(torch.arange(11.))
"""


@pytest.fixture(scope="module")
def own(notebook: Any) -> Any:
    notebook.ok(MODEL)
    return notebook


def test_validation_and_test_count_every_sample_once_and_leave_the_model_alone(own: Any) -> None:
    own.ok("model = Own(); run = trainer().validate(model, DataLoader(numbers, batch_size=2))")
    assert own.ok("print(run.state, run.metrics, model.w.item())").strip() == "finished {'index': 5.0, 'w': 0.0} 0.0"
    own.ok("run = trainer(num_nodes=2).test(model, DataLoader(numbers, batch_size=2))")
    printed = own.ok("m = run.metrics; print(m['test_index'], round(m['spread'], 6), m['count'])").strip()
    assert printed == "5.0 3.162278 11.0", "a metric that is no mean is computed on all ranks' values"


def test_predictions_come_back_in_the_data_sets_order_also_from_a_loader_that_shuffles(own: Any) -> None:
    own.ok("model = Own(); p = trainer().predict(model, DataLoader(numbers, batch_size=2, shuffle=True, drop_last=True))")
    assert own.ok("print(torch.cat(p).tolist() == [10. * k for k in range(11)], len(p), p[0].requires_grad)").strip() == (
        "True 6 False"
    )
    own.ok("p = trainer(devices=4).predict(nn.Linear(1, 3), DataLoader(TensorDataset(torch.ones(3, 1), torch.ones(3))))")
    assert own.ok("print([tuple(b.shape) for b in p])").strip() == "[(1, 3), (1, 3), (1, 3)]"


def test_the_same_calls_work_on_a_rank(own: Any) -> None:
    own.ok(
        "%%ranks --nodes 1 --devices 2 --as answers\n"
        "model = Own(); t = trainer()\n"
        "t.fit(model, DataLoader(line_set, batch_size=4))\n"
        "val = t.validate(model, DataLoader(numbers, batch_size=2)).metrics['index']\n"
        "p = t.predict(model, DataLoader(numbers, batch_size=2))\n"
        "(round(model.w.item(), 4), val, len(p))"
    )
    assert own.ok("print(answers)").strip() == "[(1.02, 5.0, 6), (1.02, 5.0, 0)]"


def test_a_step_or_a_loader_that_is_missing_is_one_line(own: Any) -> None:
    assert own.run("trainer().test(model)").error == (
        "UsageError: Nothing to test: no loader and no datamodule. Next: `trainer.test(model, loader)`."
    )
    error = own.run("trainer().test(nn.Linear(1, 1), DataLoader(numbers))").error
    assert error.startswith("UsageError: Linear has no test_step(batch, batch_idx)."), error
    assert "a int has no log_hyperparams, log_metrics, finalize" in own.run("trainer(logger=3)").error


def test_last_and_best_are_those_of_the_run_before(own: Any) -> None:
    own.ok("""
model = Own(); val = DataLoader(numbers, batch_size=2)
keep, stop = glt.ModelCheckpoint(monitor='w', mode='min'), glt.EarlyStopping('w', mode='min', patience=1)
t = trainer(max_epochs=2, callbacks=[keep, stop])
t.fit(model, DataLoader(line_set, batch_size=4), val); after_two = model.w.item()
t2 = trainer(max_epochs=3)
fresh = Own(); t2.fit(fresh, DataLoader(line_set, batch_size=4), ckpt_path='last')
third = Own(); trainer(max_epochs=3).fit(third, DataLoader(line_set, batch_size=4))
best = t.validate(Own(), val, ckpt_path='best').metrics['w']; last = t.validate(Own(), val, ckpt_path='last').metrics['w']
""")
    assert own.ok("print(abs(fresh.w.item() - third.w.item()) < 1e-6, round(best, 4), abs(last - after_two) < 1e-6)").strip() == (
        "True 1.02 True"
    )
    printed = own.ok(
        "import os; known = torch.load(keep.best_model_path, weights_only=True)\n"
        "print(known['epoch'], round(keep.best_model_score, 4), os.path.basename(keep.last_model_path), stop.stopped_epoch)"
    )
    assert printed.strip() == "1 1.02 last.pt 1", "the notebook's own callbacks know what happened"


def test_a_cells_callbacks_of_the_notebook_learn_what_happened_and_those_made_in_the_cell_do_not_reach_it(own: Any) -> None:
    own.ok("model = Own(); train_loader = DataLoader(line_set, batch_size=4)\ncallbacks = [glt.ModelCheckpoint(monitor='loss')]")
    own.ok("%%gpulayer --nodes 1 --devices 2 --val-loader none_here\nmodel; train_loader; callbacks")
    assert own.ok("print(callbacks[0].best_model_path.endswith('epoch=0-step=1.pt'))").strip() == "True"
    own.ok("callbacks = [glt.ModelCheckpoint(monitor='loss')]")
    own.ok("%%gpulayer --nodes 1 --devices 2 --val-loader none_here\nmodel; train_loader\ncallbacks = [glt.ModelCheckpoint()]")
    assert own.ok("print(repr(callbacks[0].last_model_path))").strip() == "''"


def test_loggers_write_every_step_to_the_runs_folder_once(own: Any) -> None:
    own.ok("""
run = trainer(max_epochs=2, logger=True).fit(Own(), DataLoader(line_set, batch_size=2), DataLoader(numbers, batch_size=2))
import csv; rows = list(csv.DictReader(open(run.folder / 'csv' / 'metrics.csv')))
""")
    steps = own.ok("print([r['step'] for r in rows if r['loss']], [r['index'] for r in rows if r['index']])").strip()
    assert steps == "['1', '2', '3', '4'] ['5.0', '5.0']"


def test_data_are_prepared_once_per_worker_and_helpers_know_rank_zero(own: Any) -> None:
    own.ok("""
class Data(glt.DataModule):
    def prepare_data(self): print('prepared by', self.trainer.global_rank)
    def setup(self, stage): self.stage = stage
    def train_dataloader(self): return DataLoader(line_set, batch_size=1)
    def val_dataloader(self): return DataLoader(numbers, batch_size=2)
@glt.rank_zero_only
def say(): print('only here')
class Says(Own):
    def on_fit_start(self):
        say()
        with glt.rank_zero_first(): print('turn of', self.global_rank)
run = trainer(num_nodes=2).fit(Says(), datamodule=Data())
""")
    logs = own.ok("print([log.split('\\n')[:-1] for log in run.logs])").strip()
    assert logs == str(
        [["prepared by 0", "only here", "turn of 0"], ["turn of 1"], ["prepared by 2", "turn of 2"], ["turn of 3"]]
    )
    assert own.ok("print(run.metrics['index'])").strip() == "5.0"


def test_the_magic_resumes_the_last_run_too(own: Any) -> None:
    own.ok("class Twice(Own): pass\nmodel = Twice()\ntrain_loader = DataLoader(line_set, batch_size=4)")
    own.ok("%%gpulayer --nodes 1 --devices 2 --val-loader none_here\nmodel; train_loader")
    first = own.ok("print(round(model.w.item(), 4))").strip()
    own.ok("%%gpulayer --nodes 1 --devices 2 --epochs 2 --resume last --val-loader none_here\nmodel; train_loader")
    assert (first, own.ok("print(round(model.w.item(), 4))").strip()) == ("1.02", "1.5198")
