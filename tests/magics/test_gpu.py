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
