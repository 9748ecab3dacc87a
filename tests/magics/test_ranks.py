import re
import time


def test_the_table_of_ranks_is_right_on_two_simulated_nodes(notebook):
    text = notebook.ok("%%ranks --nodes 2 --devices 2\nprint('R', rank, node_rank, local_rank, world_size)")
    assert text.splitlines() == ["[rank 0] R 0 0 0 4", "[rank 1] R 1 0 1 4", "[rank 2] R 2 1 0 4", "[rank 3] R 3 1 1 4"]


def test_torchruns_variables_are_set_on_the_ranks_and_not_in_the_kernel(notebook):
    before = notebook.ok("import os; print(sorted(os.environ.items()))")
    text = notebook.ok(
        "%%ranks --nodes 2 --devices 2\nimport os\n"
        "print(*(os.environ[k] for k in 'RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR'.split()))"
    )
    assert text.splitlines()[3] == "[rank 3] 3 1 4 2 1 127.0.0.1"
    assert notebook.ok("import os; print(sorted(os.environ.items()))") == before


def test_names_and_the_group_persist_and_values_come_back_in_rank_order(notebook):
    notebook.ok("%%ranks --nodes 2 --devices 2\nkeep = rank * 10")
    text = notebook.ok("%%ranks --as got\nx = torch.tensor([float(rank)]); dist.all_reduce(x)\n(keep, int(x.item()))")
    assert text.splitlines() == [
        "[rank 0] Out: (0, 6)",
        "[rank 1] Out: (10, 6)",
        "[rank 2] Out: (20, 6)",
        "[rank 3] Out: (30, 6)",
    ]
    assert notebook.ok("print(got)").strip() == "[(0, 6), (10, 6), (20, 6), (30, 6)]"


def test_a_cell_can_run_on_some_ranks_only(notebook):
    notebook.ok("%%ranks --nodes 2 --devices 2\npass")
    assert notebook.ok("%%ranks 0,2-3\nrank").splitlines() == ["[rank 0] Out: 0", "[rank 2] Out: 2", "[rank 3] Out: 3"]
    refused = notebook.run("%%ranks 7\nrank")
    assert refused.error == "UsageError: rank 7 does not exist: the ranks are 0 to 3."


def test_a_semicolon_hides_the_value_as_in_the_notebook(notebook):
    assert notebook.ok("%%ranks --nodes 2 --devices 2\nrank;") == ""


def test_a_pasted_torchrun_script_runs_unchanged_and_again(notebook):
    notebook.ok("%%ranks --nodes 2 --devices 2\npass")
    script = (
        "%%ranks\nimport os, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "x = torch.ones(1) * (dist.get_rank() + 1)\ndist.all_reduce(x)\nprint(int(x), os.environ['RANK'])\n"
        "dist.destroy_process_group()"
    )
    for _ in range(2):
        assert notebook.ok(script).splitlines() == [f"[rank {r}] 10 {r}" for r in range(4)]
    assert notebook.ok("%%ranks\nx = torch.ones(1); dist.all_reduce(x); int(x)").count("Out: 4") == 4


def test_what_the_notebook_changed_is_sent_and_what_the_ranks_changed_is_kept(notebook):
    notebook.ok("%%ranks --nodes 1 --devices 2\npass")
    notebook.ok("factor = 2\ndef scaled(v): return v * factor")
    assert notebook.ok("%%ranks\nscaled(rank + 1)").splitlines() == ["[rank 0] Out: 2", "[rank 1] Out: 4"]
    notebook.ok("factor = 10")
    assert notebook.ok("%%ranks\nscaled(rank + 1)").splitlines() == ["[rank 0] Out: 10", "[rank 1] Out: 20"]
    notebook.ok("%%ranks\nfactor = 100 + rank")
    assert notebook.ok("%%ranks\nscaled(1)").splitlines() == ["[rank 0] Out: 100", "[rank 1] Out: 101"]


def test_what_the_ranks_assigned_is_not_replaced_by_an_older_value_of_the_notebook(notebook):
    notebook.ok("%%ranks --nodes 1 --devices 2\npass")
    notebook.ok("never_sent = 1")
    notebook.ok("%%ranks\nnever_sent = 7 + rank")
    assert notebook.ok("%%ranks\nnever_sent").splitlines() == ["[rank 0] Out: 7", "[rank 1] Out: 8"]
    notebook.ok("never_sent = 2")
    assert notebook.ok("%%ranks\nnever_sent").splitlines() == ["[rank 0] Out: 2", "[rank 1] Out: 2"]


def test_another_shape_means_new_processes_and_one_line_says_so(notebook):
    notebook.ok("%%ranks --nodes 1 --devices 2\nkeep = 1")
    text = notebook.ok("%%ranks --nodes 1 --devices 3\n'keep' in globals()")
    assert text.splitlines()[0] == "1 node × 3 devices = 3 ranks: new processes, so the variables of the former 2 ranks are gone."
    assert text.count("Out: False") == 3


def test_rerunning_is_free_with_any_number_of_devices(notebook):
    """Five times two ranks, then four, then two: no port is ever in use, nothing stale is picked up."""
    sums = []
    for devices in (2, 2, 2, 2, 2, 4, 2):
        text = notebook.ok(f"%%ranks --nodes 1 --devices {devices}\nx = torch.ones(1); dist.all_reduce(x); int(x)")
        sums += re.findall(r"\[rank 0\] Out: (\d+)", text)
    assert sums == ["2", "2", "2", "2", "2", "4", "2"]


def test_all_lines_of_all_ranks_come_in_order_with_their_rank(notebook):
    notebook.ok("%%ranks --nodes 2 --devices 2\npass")
    text = notebook.ok("%%ranks\nfor i in range(100): print('line', i)")
    lines = text.splitlines()
    assert lines == [f"[rank {r}] line {i}" for r in range(4) for i in range(100)]


def test_text_of_subprocesses_and_c_code_is_shown_too(notebook):
    text = notebook.ok(
        "%%ranks --nodes 1 --devices 2\nimport os, sys\n_ = os.write(1, b'from file descriptor 1\\n')\n"
        "print('err', file=sys.stderr)"
    )
    for rank in range(2):
        assert f"[rank {rank}] from file descriptor 1" in text
        assert f"[rank {rank}] err" in text


def test_a_cell_that_hangs_ends_at_its_time_limit_and_the_next_cell_works(notebook):
    notebook.ok("%%ranks --nodes 1 --devices 2\nkeep = rank + 5")
    result = notebook.run("%%ranks --timeout 1\nif rank == 0:\n    x = torch.ones(1); dist.all_reduce(x)")
    assert result.error.startswith("RunFailed: The cell took longer than --timeout allows")
    assert "Rank 0 waits in all_reduce for others. Rank 1 has left the cell and will not enter it." in result.error
    assert re.search(r"rank 0 \(node 0, local rank 0, worker local\): waits in all_reduce, cell \d+ line 3\n", result.error)
    assert "rank 1 (node 0, local rank 1, worker local): has left the cell" in result.error
    assert result.seconds < 5
    assert notebook.ok("%%ranks\nx = torch.ones(1); dist.all_reduce(x); (keep, int(x))").splitlines() == [
        "[rank 0] Out: (5, 2)",
        "[rank 1] Out: (6, 2)",
    ]


def test_names_that_did_not_reach_every_rank_are_sent_again(notebook, tmp_path):
    flag = tmp_path / "may_load"
    notebook.ok("%%ranks --nodes 1 --devices 2\npass")
    notebook.ok(
        f"""
import os
class Picky:
    def __setstate__(self, state):
        if os.environ.get('RANK') == '1' and not os.path.exists({str(flag)!r}):
            raise OSError('not yet')
picky = Picky(); picky.kept = 1
a_helper = 'reaches rank 1 after picky, or never'
"""
    )
    assert "not yet" in notebook.run("%%ranks\npicky, a_helper").error
    flag.touch()
    assert notebook.ok("%%ranks\nlen(a_helper), type(picky).__name__").count("Out: (36, 'Picky')") == 2


def test_a_value_that_cannot_be_sent_is_named_and_the_ranks_go_on(notebook):
    notebook.ok("%%ranks --nodes 1 --devices 2\npass")
    result = notebook.run("%%ranks --as got\nimport threading\nthreading.Lock()")
    assert result.error.startswith("ShippingError: The value of rank 0 cannot be sent to the notebook: ")
    assert notebook.ok("%%ranks\nrank").count("Out:") == 2


def test_what_loader_workers_print_is_shown(notebook):
    """In one piece: ipykernel sends each piece that a forked process writes over a connection of its own, in any order."""
    notebook.ok("%%ranks --nodes 1 --devices 2\npass")
    notebook.ok(
        """
class Talks(Dataset):
    def __len__(self): return 2
    def __getitem__(self, i):
        print(f'item {i}', flush=True)
        return i
"""
    )
    text = notebook.ok("%%ranks\nlist(DataLoader(Talks(), num_workers=1));")
    for rank in range(2):
        assert f"[rank {rank}] item 0" in text
        assert f"[rank {rank}] item 1" in text


def completed(notebook, cell):
    """What Tab finds; pressed again if the ranks were too busy to answer in their short time."""
    for _ in range(5):
        found = notebook.complete(cell)
        if found["matches"]:
            break
    return found


def test_names_that_live_on_the_ranks_complete_in_their_cells(notebook):
    notebook.ok("%%ranks\nclass Remote:\n    far_away = 1\n    def go_on(self): pass\nremote_thing = Remote(); remote_other = 2")
    cell = "%%ranks\nx = 1\nremote_"
    found = completed(notebook, cell)
    assert {cell[found["cursor_start"] : found["cursor_end"]] + m.removeprefix("remote_") for m in found["matches"]} == {
        "remote_thing",
        "remote_other",
    }
    cell = "%%ranks\nprint(remote_thing.fa"
    found = completed(notebook, cell)
    whole = [cell[: found["cursor_start"]] + match for match in found["matches"]]
    assert whole == ["%%ranks\nprint(remote_thing.far_away"]
    plain = notebook.complete("x = 1\nremote_")["matches"]
    assert "remote_thing" not in plain


def test_names_that_live_on_the_ranks_can_be_inspected(notebook):
    notebook.ok("%%ranks\ndef remote_function(a, b=3):\n    'What it does.'")
    cell = "%%ranks\nremote_function(1)"
    answer = notebook.inspect(cell, 12)
    assert answer["found"]
    assert "remote_function(a, b=3)" in re.sub(r"\x1b\[[0-9;]*m", "", answer["data"]["text/plain"])
    assert not notebook.inspect("remote_function", 5)["found"]
    text = notebook.ok("%%ranks 1\nremote_function?")
    assert "What it does." in text


def test_a_name_whose_own_code_never_answers_does_not_keep_the_notebook(notebook):
    notebook.ok("%%ranks\nimport time\nclass Slow:\n    @property\n    def never(self): time.sleep(30)\nslow_one = Slow()")
    cell = "%%ranks\nslow_one.never.x"
    notebook.complete("%%ranks\nslow_")  # jedi has read what it reads
    began = time.monotonic()
    assert notebook.complete(cell)["status"] == "ok"
    assert time.monotonic() - began < 2
    assert notebook.ok("%%ranks\nx_ = torch.ones(1); dist.all_reduce(x_); int(x_)").count("Out:") >= 2


def test_a_request_that_cannot_be_held_costs_nothing(notebook):
    notebook.ok("%%ranks --nodes 1 --devices 2\nkeep = 40 + rank")
    refused = notebook.run("%%ranks --nodes 1 --devices 3 --accelerator cuda\nkeep")
    assert refused.error.startswith("PlanError: 0 GPUs found"), refused.error
    assert notebook.ok("%%ranks\nkeep").splitlines() == ["[rank 0] Out: 40", "[rank 1] Out: 41"]
