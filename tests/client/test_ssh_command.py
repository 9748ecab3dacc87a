"""ssh's command line for one host."""

import shlex

import pytest

from gpulayer_nb.client.provision.ssh_command import destination, hosts, remote_command, ssh_command, worker_name
from gpulayer_nb.client.provision.wishes import SshWishes
from gpulayer_nb.errors import UsageError

WISHES = SshWishes(
    name="ssh", nodes=2, devices=2, hosts=("a", "me@b"), python="/opt/my env/python", env={"A": "it's 1"}, ssh=("ssh", "-F", "f")
)


def test_hosts_are_separated_by_commas():
    assert hosts("a, me@b,ssh://c:22") == ("a", "me@b", "ssh://c:22")


@pytest.mark.parametrize("text", ["", " , ", "-oProxyCommand=x", "a b", "a,b,a"])
def test_what_is_no_list_of_hosts_is_refused(text):
    with pytest.raises(UsageError, match="--hosts"):
        hosts(text)


@pytest.mark.parametrize(
    ("host", "name"), [("a", "a"), ("me@b.example", "b.example"), ("ssh://me@b:2222", "b-2222"), ("fd77::1", "fd77-1")]
)
def test_a_worker_is_called_after_its_host(host, name):
    assert worker_name(host) == name


def test_the_remote_command_survives_the_remote_shell():
    words = shlex.split(remote_command(WISHES, "me@b"))
    assert words == [
        "exec", "env", "A=it's 1", "/opt/my env/python", "-m", "gpulayer_nb", "worker", "start", "--devices=2", "--controller=-",
        "--name=b",
    ]  # fmt: skip


def test_a_host_can_never_be_taken_for_an_option():
    command = ssh_command(WISHES, "a")
    assert command[:3] == ["ssh", "-F", "f"]
    assert command[-3:-1] == ["--", "a"]
    assert "-oBatchMode=yes" in command  # a notebook cannot answer


def test_the_address_behind_an_alias_is_what_ssh_makes_of_it():
    assert destination("user me\nhostname 10.0.0.7\nport 22\n") == "10.0.0.7"
    assert destination("") is None
