"""Slurm in the lab is a real one."""

import pytest

pytestmark = pytest.mark.slurm


def test_a_job_runs_on_two_nodes_with_names_of_their_own(slurm_lab):
    said = slurm_lab.run(["srun", "--nodes=2", "--ntasks-per-node=1", "hostname"]).stdout
    assert sorted(said.split()) == ["a", "b"]


def test_a_batch_job_waits_with_slurms_reason_and_can_be_cancelled(slurm_lab):
    job = slurm_lab.run(["sbatch", "--parsable", "--nodes=2", "--exclusive", "--wrap=srun sleep 300"]).stdout.strip()
    waiting = slurm_lab.run(["sbatch", "--parsable", "--nodes=2", "--wrap=sleep 1"]).stdout.strip()
    try:
        states = {line.split()[0]: line.split()[1:] for line in slurm_lab.jobs()}
        assert states[waiting][0] == "PENDING"
    finally:
        slurm_lab.cancel_all()
    assert job != waiting
    for node in slurm_lab.nodes:
        assert slurm_lab.lab[node].wait_until_idle(15, ignore=["slurmd"]) == []
