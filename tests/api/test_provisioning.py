"""What is typed after `%gpulayer up` becomes wishes, or a refusal that says what to write."""

import sys

import pytest

from gpulayer_nb.api.provisioning import wishes_for
from gpulayer_nb.client.provision.wishes import SlurmWishes, SshWishes
from gpulayer_nb.errors import UsageError
from gpulayer_nb.magics.options import up_parser


def wishes(line):
    options, words = up_parser().read_known(line)
    return wishes_for(options.target or "local", options, words)


def test_slurm_with_sbatchs_own_options():
    made = wishes("--target slurm --nodes 2 --devices 4 --partition gpu --time 01:00:00 --max-wait 00:05:00 --env A=1")
    assert made == SlurmWishes(
        name="slurm", nodes=2, devices=4, wait_seconds=300.0, env={"A": "1"}, options=("--partition=gpu", "--time=01:00:00")
    )
    assert made.python == sys.executable


def test_ssh_has_a_node_a_host():
    made = wishes('--target ssh --hosts a,b --devices 2 --name lab --ssh "ssh -p 2222" --controller-address 10.0.0.1')
    assert made == SshWishes(name="lab", nodes=2, devices=2, hosts=("a", "b"), ssh=("ssh", "-p", "2222"), address="10.0.0.1")


def test_other_targets_are_not_ours_to_bring_up():
    assert wishes("--target local --nodes 2") is None
    assert wishes("--target remote") is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--target ssh --devices 2", "--hosts a,b"),
        ("--target ssh --hosts a,b --nodes 3", "one node a host"),
        ("--target local --hosts a", "goes with `--target ssh`"),
        ("--target slurm --nodes 0", "at least 1"),
        ("--target slurm --ntasks 4", "settled by gpulayer"),
        ("--target slurm --name local", "--name"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_to_write(line, words, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(UsageError, match=words):
        wishes(line)
