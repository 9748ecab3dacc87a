"""Other people's trainers on our ranks, with the real packages: each leaves the ranks and their group usable."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.slow

DATA = """
import lightning as L
x = torch.arange(1., 9.).reshape(8, 1); line_set = TensorDataset(x, 2 * x)
class Lit(L.LightningModule):
    def __init__(self, rate=0.01):
        super().__init__(); self.save_hyperparameters()
        self.layer = nn.Linear(1, 1, bias=False); nn.init.zeros_(self.layer.weight)
    def forward(self, a): return self.layer(a)
    def training_step(self, batch):
        a, b = batch; loss = ((self.layer(a) - b) ** 2).mean()
        self.log('loss', loss, prog_bar=True, sync_dist=True); return loss
    def validation_step(self, batch, batch_idx):
        self.log('index', batch[0].mean(), sync_dist=True, on_epoch=True)
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.rate)
        return {'optimizer': optimizer, 'lr_scheduler': {'scheduler': torch.optim.lr_scheduler.StepLR(optimizer, 100)}}
"""
USABLE = "%%ranks\nt = torch.ones(1); dist.all_reduce(t); t.item()"


@pytest.fixture(scope="module")
def own(notebook: Any) -> Any:
    notebook.ok(DATA, limit_seconds=120)
    notebook.ok("%%ranks --nodes 1 --devices 2\nrank")
    return notebook


@pytest.fixture(autouse=True)
def _ranks_stay_usable(own: Any) -> Any:
    yield
    assert own.ok(USABLE).count("2.0") == 2


def test_a_lightning_module_is_fitted_as_it_is(own: Any) -> None:
    own.ok(
        "lit = Lit(); run = glt.Trainer(devices=2, accelerator='cpu').fit("
        "lit, DataLoader(line_set, batch_size=4), DataLoader(line_set, batch_size=2))",
        limit_seconds=120,
    )
    printed = own.ok("print(round(lit.layer.weight.item(), 4), run.metrics['index'], type(lit).__name__, lit._trainer)").strip()
    assert printed == "1.02 4.5 Lit None"
    own.ok("p = glt.Trainer(devices=2).predict(lit, DataLoader(x, batch_size=3)); q = torch.cat(p).flatten()")
    assert own.ok("print(len(p), bool((q - 1.02 * x.flatten()).abs().max() < 1e-5))").strip() == "3 True"


def test_a_lightning_module_that_changes_the_loop_is_refused_by_name(own: Any) -> None:
    own.ok("class Steps(Lit):\n    def optimizer_step(self, *a, **k): pass")
    error = own.run("glt.Trainer(devices=2).fit(Steps(), DataLoader(line_set, batch_size=4))").error
    assert error.startswith("UsageError: Steps changes the loop itself by optimizer_step"), error


def test_lightnings_own_trainer_uses_the_live_group(own: Any) -> None:
    text = own.ok(
        "%%ranks\n"
        "import warnings, logging; warnings.simplefilter('ignore')\n"
        "trainer = L.Trainer(max_epochs=1, accelerator='cpu', devices=2, strategy='ddp', logger=False, barebones=False,\n"
        "    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)\n"
        "lit = Lit(); trainer.fit(lit, DataLoader(line_set, batch_size=4), DataLoader(line_set, batch_size=2))\n"
        "index = round(trainer.callback_metrics['index'].item(), 4)\n"
        "(trainer.global_rank, trainer.world_size, round(lit.layer.weight.item(), 4), index)",
        limit_seconds=120,
    )
    assert "(0, 2, 1.02, 4.5)" in text and "(1, 2, 1.02, 4.5)" in text


def test_accelerate_divides_and_averages_on_the_live_group(own: Any) -> None:
    text = own.ok(
        "%%ranks\n"
        "from accelerate import Accelerator\n"
        "accelerator = Accelerator(cpu=True); model = nn.Linear(1, 1, bias=False); nn.init.zeros_(model.weight)\n"
        "model, optimizer, loader = accelerator.prepare(\n"
        "    model, torch.optim.SGD(model.parameters(), lr=0.01), DataLoader(line_set, batch_size=4))\n"
        "for a, b in loader:\n"
        "    loss = ((model(a) - b) ** 2).mean(); accelerator.backward(loss); optimizer.step(); optimizer.zero_grad()\n"
        "(accelerator.num_processes, accelerator.process_index, round(accelerator.unwrap_model(model).weight.item(), 4))",
        limit_seconds=120,
    )
    assert "(2, 0, 1.02)" in text and "(2, 1, 1.02)" in text


def test_a_pasted_torchrun_script_makes_and_ends_its_own_group(own: Any) -> None:
    text = own.ok(
        "%%ranks\n"
        "import os, torch.distributed as dist\n"
        "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "from torch.utils.data.distributed import DistributedSampler\n"
        "def main():\n"
        "    dist.init_process_group('gloo')\n"
        "    me = int(os.environ['LOCAL_RANK']); model = DDP(nn.Linear(1, 1, bias=False)); nn.init.zeros_(model.module.weight)\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
        "    for a, b in DataLoader(line_set, batch_size=4, sampler=DistributedSampler(line_set, shuffle=False)):\n"
        "        optimizer.zero_grad(); ((model(a) - b) ** 2).mean().backward(); optimizer.step()\n"
        "    weight = round(model.module.weight.item(), 4)\n"
        "    dist.destroy_process_group()\n"
        "    return me, weight\n"
        "main()",
        limit_seconds=120,
    )
    assert "(0, 1.02)" in text and "(1, 1.02)" in text


def test_accumulation_in_a_loop_of_ones_own_gives_every_rank_one_process_s_weight(own: Any) -> None:
    text = own.ok(
        "%%ranks\n"
        "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "model = DDP(nn.Linear(1, 1, bias=False)); nn.init.zeros_(model.module.weight)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
        "mine = torch.utils.data.Subset(line_set, range(rank, 8, 2)); first, second = DataLoader(mine, batch_size=2)\n"
        "with model.no_sync(): (((model(first[0]) - first[1]) ** 2).mean() / 2).backward()\n"
        "(((model(second[0]) - second[1]) ** 2).mean() / 2).backward(); optimizer.step()\n"
        "round(model.module.weight.item(), 4)"
    )
    assert text.count("1.02") == 2, text
