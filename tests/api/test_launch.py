"""Scripts through torchrun on simulated nodes of this machine. Every test starts real agents, which import torch."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gpulayer_nb as glt
from gpulayer_nb.process import children_of, start_ticks

EXAMPLE = Path(__file__).parents[2] / "examples" / "launch_ddp_script" / "train_ddp.py"
WHO = """
import os, sys
from neighbour import greeting
place = tuple(int(os.environ[name]) for name in ("RANK", "GROUP_RANK", "LOCAL_RANK"))
print(greeting, place, os.environ["WORLD_SIZE"], os.environ["LOCAL_WORLD_SIZE"], sys.argv[1:], os.environ["COLOUR"], os.getcwd())
print("to stderr", file=sys.stderr)
"""
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)
if os.fork() == 0:  # as a loader worker
    os.setsid()
    time.sleep(300)
print("at work", flush=True)
if os.environ["RANK"] == "3" and "raise" in sys.argv:
    time.sleep(1)
    raise ValueError("bad sample 17")
time.sleep(300)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder, text, name="script.py"):
    (folder / name).write_text(text)
    return name


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.05)


def at_work(run, ranks):
    return len(run.logs) == ranks and all("at work" in log for log in run.logs)


def command(*words, **more):
    return subprocess.run(
        [sys.executable, "-m", "gpulayer_nb", "launch", *map(str, words)], capture_output=True, text=True, timeout=120, **more
    )


def epochs(text):
    return re.findall(r"epoch \d+: loss \S+, test accuracy \S+", text)


@pytest.mark.parametrize(
    ("script", "options", "message"),
    [
        ("missing.py", {}, "missing.py does not exist"),
        (".", {}, ". is a folder"),
        ("notes.txt", {}, "notes.txt is not a Python file"),
        ("book.ipynb", {}, "book.ipynb is a notebook"),
        ("broken.py", {}, "broken.py line 2 is not Python"),
        ("fine.py", {"devices": 0}, "--devices is 0"),
        ("fine.py", {"devices": -1}, "--devices is -1"),
        ("fine.py", {"devices": 1.5}, "--devices is 1.5"),
        ("fine.py", {"nodes": "two"}, "--nodes is 'two'"),
        ("fine.py", {"accelerator": "tpu"}, "--accelerator is 'tpu'"),
        ("fine.py", {"target": "moon"}, "moon"),
        ("fine.py", {"args": "--lr 0.1"}, "give a list, for example args=['--lr', '0.1']"),
    ],
)
def test_what_cannot_be_launched_is_one_clear_error(folder, script, options, message):
    for name in ("fine.py", "notes.txt", "book.ipynb"):
        write(folder, "x = 1\n", name)
    write(folder, "x = 1\nif x\n", "broken.py")
    with pytest.raises(glt.GpuLayerError) as error:
        glt.launch(script, **options)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_launch_without_a_script_is_for_scripts(monkeypatch):
    monkeypatch.delattr(sys.modules["__main__"], "__file__")
    with pytest.raises(glt.UsageError, match="name the script"):
        glt.launch(nodes=2)


def test_a_rank_of_torchrun_goes_on_at_once_without_loading_anything_heavy():
    code = (
        "import gpulayer_nb as glt, sys; assert glt.launch(nodes=2, devices=2) is None; "
        "print([name for name in ('torch', 'zmq', 'ipyparallel', 'numpy') if name in sys.modules])"
    )
    environment = {**os.environ, "RANK": "1", "TORCHELASTIC_RUN_ID": "none"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.slow
def test_the_example_gives_the_same_losses_under_plain_torchrun_and_under_launch(folder):
    plain = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=4", str(EXAMPLE)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert plain.returncode == 0, plain.stderr
    ours = command(EXAMPLE, "--nodes", "2", "--devices", "2")
    assert ours.returncode == 0, ours.stderr
    assert len(epochs(plain.stdout)) == 3
    assert epochs(ours.stdout) == epochs(plain.stdout)


@pytest.mark.slow
def test_ranks_are_who_they_should_be_and_get_arguments_environment_folder_and_neighbours(folder, capsys):
    code = folder / "code"
    code.mkdir()
    write(code, "greeting = 'hello'", "neighbour.py")
    run = glt.launch(f"code/{write(code, WHO)}", nodes=2, devices=2, args=["--lr", 0.1], env={"COLOUR": "red"})
    places = [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)]
    for rank, place in enumerate(places):
        assert f"hello {place} 4 2 ['--lr', '0.1'] red {folder}" in run.logs[rank]
        assert "to stderr" in run.logs[rank]
    assert (run.state, run.error, run.exit_codes) == ("finished", None, {0: 0, 1: 0, 2: 0, 3: 0})
    assert glt.runs[-1] is run
    shown = capsys.readouterr().out
    assert all(f"[rank {rank}] hello {place}" in shown for rank, place in enumerate(places))
    listed = subprocess.run([sys.executable, "-m", "gpulayer_nb", "runs"], capture_output=True, text=True, timeout=30).stdout
    assert f"{run.run_id}  finished 2 × 2" in listed


@pytest.mark.slow
def test_when_a_rank_raises_all_end_within_eight_seconds_and_its_own_lines_are_shown(folder):
    started = glt.launch(write(folder, STUBBORN), nodes=2, devices=2, args=["raise"], wait=False)
    wait_for(lambda: at_work(started, 4))
    pids = children_of(os.getpid())
    wait_for(lambda: "bad sample" in started.logs[3])
    raised = time.monotonic()
    wait_for(lambda: started.state == "failed", seconds=12)
    assert time.monotonic() - raised < 8
    assert not [pid for pid in pids if start_ticks(pid) is not None]
    assert str(started.error).startswith(
        "ValueError: bad sample 17 — rank 3 (node 1, local rank 1, worker local), in script.py line 10, exit code 1"
    )
    assert "raise ValueError" in started.error.report
    assert started.exit_codes[3] in (1, -6)  # torch may abort a process that leaves with its group open
    assert set(started.exit_codes.values()) - {1, -6} <= {-9, -15, None}  # None: torchrun was quicker than our look


@pytest.mark.slow
def test_an_agent_that_is_killed_leaves_no_orphan(folder):
    run = glt.launch(write(folder, STUBBORN), nodes=2, devices=2, wait=False)
    wait_for(lambda: at_work(run, 4))
    pids = children_of(os.getpid())
    agents = [pid for pid in pids if b"gpulayer_nb.engine.torchrun" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(agents) == 2 and len(pids) >= 2 + 2 + 4 + 4
    os.kill(agents[1], signal.SIGKILL)
    wait_for(lambda: run.state == "failed", seconds=12)
    assert not [pid for pid in pids if start_ticks(pid) is not None]
    assert re.match(r"torchrun on node \d \(worker local\) was ended by signal 9 \(SIGKILL\)", str(run.error))


@pytest.mark.slow
def test_a_stop_ends_even_ranks_that_ignore_signals(folder):
    run = glt.launch(write(folder, STUBBORN), nodes=1, devices=2, wait=False)
    wait_for(lambda: at_work(run, 2))
    pids = children_of(os.getpid())
    asked = subprocess.run([sys.executable, "-m", "gpulayer_nb", "stuck"], capture_output=True, text=True, timeout=60).stdout
    assert re.search(r"rank 1 \(node 0, local rank 1\), worker local: running as process \d+", asked), asked
    began = time.monotonic()
    run.stop()
    wait_for(lambda: run.state == "stopped", seconds=15)
    assert time.monotonic() - began < 13
    assert not [pid for pid in pids if start_ticks(pid) is not None]
    assert isinstance(run.error, glt.RunStopped)


@pytest.mark.slow
def test_nothing_is_left_when_the_launching_process_is_killed(folder):
    child = subprocess.Popen(
        [sys.executable, "-m", "gpulayer_nb", "launch", write(folder, STUBBORN), "--nodes", "2"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert "at work" in child.stdout.readline()
    wait_for(lambda: len(children_of(child.pid)) >= 2 + 2 + 2 + 2)
    pids = children_of(child.pid)
    child.kill()
    child.wait()
    child.stdout.close()
    wait_for(lambda: not [pid for pid in pids if start_ticks(pid) is not None], seconds=8)


@pytest.mark.slow
def test_the_command_has_the_exit_code_of_the_first_failure(folder):
    script = write(folder, "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(7)\ntime.sleep(60)\n")
    done = command(script, "--devices", "2")
    assert done.returncode == 7, done.stderr
    assert "Rank 1 (node 0, local rank 1, worker local) ended with exit code 7" in done.stderr


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_stops_the_script(folder):
    script = write(
        folder, "import time\nprint('up', flush=True)\ntry:\n    time.sleep(60)\nfinally:\n    print('tidied up', flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-m", "gpulayer_nb", "launch", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert "up" in child.stdout.readline()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=15)
    assert child.returncode == 130
    assert "tidied up" in out
    assert "gpulayer: stopped script.py on 1 rank" in err


@pytest.mark.slow
def test_a_script_whose_first_line_launches_it_runs_on_its_ranks_only(folder):
    script = write(
        folder,
        "import gpulayer_nb as glt\nglt.launch(nodes=1, devices=2)\nimport os, sys\n"
        "print('rank', os.environ['RANK'], sys.argv[1:])\nif os.environ['RANK'] == '1': sys.exit(5)\n",
    )
    done = subprocess.run([sys.executable, script, "a b"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 5, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[rank 0] rank 0 ['a b']", "[rank 1] rank 1 ['a b']"]


@pytest.mark.slow
def test_a_node_with_too_few_gpus_is_refused_never_made_smaller(folder):
    import torch

    have = torch.cuda.device_count()
    with pytest.raises(glt.PlanError, match=rf"{have} GPUs? found, {have + 2} asked on worker local. Nothing was run."):
        glt.launch(write(folder, "print('ran')\n"), devices=have + 2, accelerator="cuda")
    assert "ran" not in "".join(glt.runs[-1].logs)
