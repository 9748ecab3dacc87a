"""A run's start, where it goes wrong before there are ranks."""

import errno
import os
from dataclasses import replace

import pytest

from gpulayer_nb.api.attach import find, folders
from gpulayer_nb.api.execute import begin, execute
from gpulayer_nb.client.run_request import RunRequest
from gpulayer_nb.errors import RunStopped, UsageError
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.records.run_folder import RunFolder

REQUEST = RunRequest(mode="train", topology=Topology(1, 2))


class Session:
    def begin(self, request): ...


class View:
    def __init__(self, history):
        self.dismissed = False

    def show(self): ...
    def refresh(self): ...
    def finish(self): ...
    def dismiss(self): ...


@pytest.fixture(autouse=True)
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("GPULAYER_HOME", str(tmp_path))
    return tmp_path / "runs"


def test_an_interrupt_while_the_view_is_made_is_a_stop_and_leaves_nothing(runs):
    def interrupted(history):
        raise KeyboardInterrupt

    with pytest.raises(RunStopped, match="nothing ran"):
        execute(Session(), REQUEST, interrupted)
    assert list(runs.iterdir()) == []


def test_a_file_that_cannot_be_written_as_the_ranks_come_up_is_named_with_the_next_step(runs, tmp_path):
    class FullDisk(Session):
        def run(self, request, run_id, folder: RunFolder, *rest):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "elsewhere"))

    with pytest.raises(UsageError, match=r"The file .*elsewhere cannot be written: No space left on device\. .* Next: make room"):
        execute(FullDisk(), REQUEST, View)
    assert list(runs.iterdir()) == []


@pytest.mark.parametrize("step", ["write_cell", "write_facts"])
def test_a_folder_that_is_only_half_made_is_removed_and_named(runs, monkeypatch, step):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(RunFolder, step, full)
    with pytest.raises(UsageError, match="The run folder .* cannot be written: No space left on device"):
        execute(None, REQUEST, View)
    assert list(runs.iterdir()) == []


def test_a_detached_run_in_a_folder_of_the_users_own_is_found_with_all_others(runs, tmp_path):
    mine = replace(REQUEST, detach=True, root=tmp_path / "mine")
    folder = begin("20260101-120000-abcd", mine)
    assert folder.path.parent == tmp_path / "mine" / "runs"
    assert find("abcd").path.resolve() == folder.path.resolve()
    folder.remove()
    assert folders() == []
