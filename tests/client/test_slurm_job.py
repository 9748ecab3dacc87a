"""sbatch's options as users type them, and the script that comes of it."""

import pytest

from gpulayer_nb.client.provision.slurm_job import directives, sbatch_options
from gpulayer_nb.errors import UsageError


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], ()),
        (["--partition", "gpu"], ("--partition=gpu",)),
        (["--partition=gpu", "--exclusive"], ("--partition=gpu", "--exclusive")),
        (["--exclusive", "--time", "01:00:00", "-A", "lab"], ("--exclusive", "--time=01:00:00", "-A lab")),
        (["--comment=a b"], ("--comment=a b",)),
    ],
)
def test_options_are_kept_as_sbatch_has_them(words, options):
    assert sbatch_options(words) == options


@pytest.mark.parametrize("words", [["--ntasks", "4"], ["--ntasks-per-node=2"], ["--requeue"], ["--array=1-3"], ["--wrap=ls"]])
def test_what_the_job_settles_itself_is_refused(words):
    with pytest.raises(UsageError, match="is settled by gpulayer"):
        sbatch_options(words)


def test_a_stray_word_and_a_line_break_are_refused():
    with pytest.raises(UsageError, match="knows no word gpu"):
        sbatch_options(["gpu"])
    with pytest.raises(UsageError, match="line break"):
        sbatch_options(["--comment", "a\n#SBATCH --requeue"])


@pytest.mark.parametrize(
    ("options", "accelerator", "lines"),
    [
        ((), "auto", ["--cpus-per-task=4"]),
        (("--cpus-per-task=8",), "auto", ["--cpus-per-task=8"]),
        (("-c 8",), "auto", ["-c 8"]),
        (("--partition=gpu",), "cuda", ["--cpus-per-task=4", "--gpus-per-node=4", "--partition=gpu"]),
        (("--gres=gpu:a100:4",), "cuda", ["--cpus-per-task=4", "--gres=gpu:a100:4"]),
        (("--exclusive",), "auto", ["--exclusive"]),
    ],
)
def test_cpus_and_gpus_follow_from_the_ranks_unless_the_user_says_otherwise(options, accelerator, lines):
    assert directives(options, 4, accelerator).splitlines() == [f"#SBATCH {line}" for line in lines]
