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
    cluster.ensure(Topology(2, 2), say=lambda text: None)


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
    assert cluster.ensure(Topology(1, 2), say=lambda text: None)
    first = cluster.worker().engines
    assert not cluster.ensure(Topology(1, 2), say=lambda text: None)
    assert cluster.worker().engines == first
    started = time.monotonic()
    assert cluster.ensure(Topology(2, 1), say=lambda text: None)
    assert time.monotonic() - started < 10
    assert set(cluster.worker().engines).isdisjoint(first)
