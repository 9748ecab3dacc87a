"""Where ranks cannot run, nothing is started."""

from __future__ import annotations

import pytest

from gpulayer_nb.client.embedded import EmbeddedCluster
from gpulayer_nb.errors import PlanError
from gpulayer_nb.plan.topology import Topology


def test_windows_is_refused_before_a_cluster_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = EmbeddedCluster()
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(PlanError, match=r"Ranks do not run on Windows itself.*WSL 2"):
        cluster.ensure(Topology(1, 2), "cpu", lambda text: None)
    assert not cluster.is_up
