"""The embedded cluster without a notebook: starts that fail, and what is left then."""

import os
import time
from pathlib import Path

import pytest

from gpulayer_nb.client.embedded import EmbeddedCluster
from gpulayer_nb.errors import ClusterError
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.process import children_of
from gpulayer_nb.records.cluster_folder import clusters_root

pytestmark = pytest.mark.slow  # every test starts a cluster

# Python runs a module of this name at every start: the third process that the zygote forks ends at once, or comes late.
SITE = """
import os, sys
if "gpulayer_nb.engine.zygote" in sys.orig_argv:
    forks = []
    def third():
        if len(forks) == 3: {what}
    os.register_at_fork(before=lambda: forks.append(1), after_in_child=third)
"""


@pytest.fixture
def cluster():
    made = EmbeddedCluster()
    yield made
    made.end()


def start_with(cluster, tmp_path, monkeypatch, what):
    (tmp_path / "sitecustomize.py").write_text(SITE.format(what=what))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    cluster.ensure(Topology(2, 2), "auto", say=lambda text: None)


def test_an_engine_that_ends_at_once_is_a_reason_not_a_partial_start(cluster, tmp_path, monkeypatch):
    what = 'os.write(2, b"no such device"); os._exit(3)'
    with pytest.raises(ClusterError, match=r"of 4 ranks came up: engine 2 ended with exit code 3\. All were stopped\."):
        start_with(cluster, tmp_path, monkeypatch, what)
    assert [pid for pid in children_of(os.getpid()) if "gpulayer_nb" in Path(f"/proc/{pid}/cmdline").read_text()] == []
    assert not list(clusters_root().glob(f"local-{os.getpid()}-*"))


def test_an_engine_that_comes_late_is_waited_for(cluster, tmp_path, monkeypatch):
    start_with(cluster, tmp_path, monkeypatch, "__import__('time').sleep(5)")
    assert len(cluster.worker().engines) == 4


def test_the_same_shape_is_kept_and_another_makes_new_processes(cluster):
    assert cluster.ensure(Topology(1, 2), "auto", say=lambda text: None)
    first = cluster.worker().engines
    assert not cluster.ensure(Topology(1, 2), "auto", say=lambda text: None)
    assert cluster.worker().engines == first
    started = time.monotonic()
    assert cluster.ensure(Topology(2, 1), "auto", say=lambda text: None)
    assert time.monotonic() - started < 10
    assert set(cluster.worker().engines.values()).isdisjoint(first.values())


def test_what_was_begun_is_used_if_it_has_the_shape_and_replaced_if_not(cluster):
    cluster.begin(Topology(1, 2))
    supervisor = supervisors()
    assert len(supervisor) == 1
    cluster.begin(Topology(1, 2))
    assert supervisors() == supervisor
    assert cluster.topology is None  # nothing is up yet
    assert cluster.ensure(Topology(1, 2), "auto", say=lambda text: None)
    assert supervisors() == supervisor
    cluster.begin(Topology(2, 1))  # up: what else is wanted is for `ensure`
    assert supervisors() == supervisor
    cluster.end()
    cluster.begin(Topology(1, 2))
    cluster.ensure(Topology(1, 1), "auto", say=lambda text: None)
    assert len(supervisors()) == 1
    assert list(cluster.worker().engines) == [0]


def test_what_was_begun_and_not_used_ends_with_the_cluster(cluster):
    cluster.begin(Topology(1, 2))
    cluster.end()
    assert supervisors() == []
    assert not list(clusters_root().glob(f"local-{os.getpid()}-*"))


def supervisors():
    time.sleep(0.05)  # a process that has just been started has no command line for a moment
    return [pid for pid in children_of(os.getpid()) if "gpulayer_nb.worker\0" in Path(f"/proc/{pid}/cmdline").read_text()]
