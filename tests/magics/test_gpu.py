import pytest

pytestmark = pytest.mark.gpu

SETUP = """
x = torch.arange(1., 9.); data = TensorDataset(x[:, None], 2 * x[:, None])
model = nn.Linear(1, 1, bias=False); nn.init.zeros_(model.weight)
"""
TRAIN = """%%gpulayer --nodes 1 --devices 1 --accelerator cuda
train_loader = DataLoader(data, batch_size=8); loss_fn = nn.MSELoss(); optimizer = torch.optim.SGD(model.parameters(), lr=.01)"""


def test_one_gpu_trains_and_the_weights_come_back_to_the_models_own_device(notebook):
    notebook.ok(SETUP)
    notebook.ok("torch.ones(1, device='cuda')  # the notebook has used CUDA before")
    notebook.ok(TRAIN)
    assert notebook.ok("print(round(model.weight.item(), 4), model.weight.device)").split() == ["1.02", "cpu"]
    assert notebook.ok("%%ranks\ndevice, dist.get_backend()").strip() == "[rank 0] Out: (device(type='cuda', index=0), 'nccl')"


def test_a_rank_that_raises_on_a_gpu_leaves_its_engine_up(notebook):
    notebook.ok("%%ranks --nodes 1 --devices 1 --accelerator cuda\nkeep = torch.ones(1, device=device)")
    assert "ValueError: mine" in notebook.run("%%ranks --accelerator cuda\nraise ValueError('mine')").error
    assert "Out: 1" in notebook.ok("%%ranks --accelerator cuda\ndist.all_reduce(keep); int(keep)")


def test_two_gpus_on_a_machine_with_fewer_are_refused_with_both_numbers(notebook):
    count = int(notebook.ok("print(torch.cuda.device_count())"))
    result = notebook.run(f"%%gpulayer --nodes 1 --devices {count + 1} --accelerator cuda\nx = 1")
    assert f"{count + 1} asked" in result.error


def test_mixed_precision_on_a_gpu_computes_in_bf16_and_keeps_the_weights_whole(notebook):
    notebook.ok(SETUP)
    seen = "seen = []\nmodel.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))"
    notebook.ok(f"{TRAIN.replace('cuda', 'cuda --precision bf16-mixed', 1)}\n{seen}")
    assert notebook.ok("%%ranks\nset(seen), model.weight.dtype").strip() == "[rank 0] Out: ({torch.bfloat16}, torch.float32)"


def test_steps_do_not_wait_for_the_gpu(notebook):
    """torch warns of every wait: there may be one for each exchange of metrics, a few a second, and none for each step."""
    notebook.ok("data = TensorDataset(torch.randn(4000, 64), torch.randn(4000, 1)); model = nn.Linear(64, 1)")
    notebook.ok(
        "%%gpulayer --nodes 1 --devices 1 --accelerator cuda --epochs 3\n"
        "import warnings\n"
        "train_loader = DataLoader(data, batch_size=4, pin_memory=True); loss_fn = nn.MSELoss()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=.001)\n"
        "waits, steps = [], 0\n"
        "def note(*_):\n"
        "    global steps\n"
        "    steps += 1\n"
        "    if steps == 100:  # the first steps allocate and compile\n"
        "        warnings.showwarning = lambda message, *_, **__: waits.append(str(message))\n"
        "        warnings.simplefilter('always'); torch.cuda.set_sync_debug_mode('warn')\n"
        "optimizer.register_step_post_hook(note)"
    )
    notebook.ok("%%ranks\ntorch.cuda.set_sync_debug_mode('default')")
    steps, waits = map(int, notebook.ok("%%ranks\nprint(steps, len(waits))").split("]")[-1].split())
    assert steps == 3000
    assert waits < (steps - 100) / 10, waits


def test_two_ranks_of_gloo_share_one_gpu(notebook):
    said = notebook.ok(
        "%%ranks --nodes 1 --devices 2 --accelerator cpu\n"
        "x = torch.full((3,), rank + 1., device='cuda:0'); dist.all_reduce(x); x.tolist()"
    )
    assert said.count("Out: [3.0, 3.0, 3.0]") == 2, said
