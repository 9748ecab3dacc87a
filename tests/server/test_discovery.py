"""Which clusters are found, and which folders are none."""

from __future__ import annotations

import json
import os
from pathlib import Path

from gpulayer_nb.process import start_ticks
from gpulayer_nb.records.cluster_folder import ClusterFolder
from gpulayer_nb.server.discovery import EMBEDDED, IPYPARALLEL, OPEN, find_clusters

ME = (os.getpid(), start_ticks(os.getpid()))


def cluster(root: Path, name: str, owner: tuple[int, int | None] = ME, connection: bool = True) -> ClusterFolder:
    folder = ClusterFolder.create(name, root)
    folder.add_owner(*owner)
    if connection:
        folder.client_file.write_text('{"interface": "tcp://127.0.0.1"}')
    return folder


def test_a_kernels_cluster_and_an_open_one_are_found(tmp_path: Path) -> None:
    cluster(tmp_path, "local-12-abc")
    (cluster(tmp_path, "lab").path / "cluster.json").write_text("{}")
    found = find_clusters(tmp_path, tmp_path / "none")
    assert [(one.name, one.kind) for one in found] == [
        ("lab", OPEN), ("local-12-abc", EMBEDDED),
    ]  # fmt: skip


def test_one_that_is_coming_up_is_found_too(tmp_path: Path) -> None:
    cluster(tmp_path, "local-12-abc", connection=False)
    assert [one.name for one in find_clusters(tmp_path, tmp_path / "none")] == ["local-12-abc"]


def test_what_is_left_over_or_half_made_is_not(tmp_path: Path) -> None:
    cluster(tmp_path, "local-1-dead", owner=(os.getpid(), 1))  # the pid is another process's now
    ClusterFolder.create("local-2-new", tmp_path)
    cluster(tmp_path, "worker-b-77", connection=False)  # a joined worker's own folder
    (tmp_path / "notes.txt").write_text("")
    assert find_clusters(tmp_path, tmp_path / "none") == []
    assert find_clusters(tmp_path / "nowhere", tmp_path / "none") == []


def test_clusters_of_ipyparallel_are_found_in_their_profiles(tmp_path: Path) -> None:
    security = tmp_path / "profile_default" / "security"
    security.mkdir(parents=True)
    for name, pid in (("up", os.getpid()), ("down", 2**22 + 1)):
        facts = {"cluster": {"cluster_id": name, "n": 2}, "controller": {"class": "local", "state": {"pid": pid}}}
        (security / f"cluster-{name}.json").write_text(json.dumps(facts))
        (security / f"ipcontroller-{name}-client.json").write_text("{}")
    (security / "cluster-broken.json").write_text("{")
    assert [(one.name, one.kind) for one in find_clusters(tmp_path / "none", tmp_path)] == [("default-up", IPYPARALLEL)]
