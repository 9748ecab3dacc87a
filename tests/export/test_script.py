"""The batch file and the loop as text."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gpulayer_nb.export.loop_text import training
from gpulayer_nb.export.script import ExportedCell, sbatch_text
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.records.fit_names import FitNames
from gpulayer_nb.records.fit_options import FitOptions

CELL = ExportedCell(
    body="x = 1",
    magic="%%gpulayer",
    topology=Topology(2, 4),
    accelerator="cuda",
    options=FitOptions(),
    names=FitNames(),
    parts=(),
    env={},
)
STUBS = {
    "scontrol": "echo first; echo second",
    "srun": 'while [[ $1 == --* ]]; do shift; done\nfor SLURM_NODEID in 0 1; do export SLURM_NODEID; "$@"; done',
    "torchrun": 'echo "$@"',
}


def write_stubs(folder: Path) -> None:
    for name, text in STUBS.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)


def test_the_batch_file_starts_torchrun_once_a_node(tmp_path):
    write_stubs(tmp_path)
    text = sbatch_text(CELL, Path("/home/ada/my runs/train.py"))
    for line in ("--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=4", "--no-requeue", "--chdir=/home/ada/my runs"):
        assert f"#SBATCH {line}\n" in text
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_JOB_ID": "123456",
        "SLURM_JOB_NUM_NODES": "2",
    }
    done = subprocess.run(["bash", "-c", text, "job", "--lr", "a b"], env=environment, capture_output=True, text=True, timeout=30)
    assert done.stdout.splitlines() == [
        f"--nnodes 2 --node-rank {node} --nproc-per-node 4 --rdzv-backend static --master-addr first --master-port 23456 "
        "train.py --lr a b"
        for node in (0, 1)
    ], done.stderr


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_batch_file_pleases_shellcheck(tmp_path):
    (tmp_path / "job.sbatch").write_text(sbatch_text(replace(CELL, accelerator="cpu"), tmp_path / "train.py"))
    done = subprocess.run(["shellcheck", str(tmp_path / "job.sbatch")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("parts", [(), ("val_loader",), ("val_loader", "scheduler", "metrics")])
@pytest.mark.parametrize(
    "options",
    [
        FitOptions(),
        FitOptions(seed=3, accumulate_grad_batches=4, gradient_clip_val=1.0),
        FitOptions(precision="16-mixed", max_epochs=None, max_steps=10, find_unused_parameters=True),
        FitOptions(precision="bf16-mixed", sync_batchnorm=True, gradient_clip_val=1.0),
    ],
)
def test_every_combination_of_options_is_python(options, parts):
    compile(training(FitNames(), options, parts, ()), "script.py", "exec")


def test_our_names_give_way_to_the_notebooks():
    text = training(FitNames(), FitOptions(), ("val_loader",), {"to_device", "add_up"})
    assert "def to_device_of_ours(part):" in text and "def add_up_of_ours(" in text
    assert "to_device(" not in text.replace("to_device_of_ours(", "") and "def samples_in(" in text
