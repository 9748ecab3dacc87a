"""Finds the clusters of this user on this machine, whoever started them.

Runs in the Jupyter server. Owns where to look: our own clusters' folders, and ipyparallel's profiles. Reads files only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulayer_nb.process import is_running, start_ticks
from gpulayer_nb.records.cluster_folder import ClusterFolder
from gpulayer_nb.records.connection_file import read_if_whole

EMBEDDED, OPEN, IPYPARALLEL = "embedded", "open", "ipyparallel"


@dataclass(frozen=True)
class FoundCluster:
    """`kind` is "embedded" (a kernel's own), "open" (workers may join, notebooks name it as target) or "ipyparallel".

    `owners` are the processes for whom it runs, as pid and start ticks; empty for ipyparallel's.
    """

    name: str
    kind: str
    client_file: Path
    folder: ClusterFolder | None = None
    owners: tuple[tuple[int, int | None], ...] = ()


def find_clusters(root: Path, profiles: Path) -> list[FoundCluster]:
    """Clusters whose owner or controller is running, by name.

    Args:
        root: folder of our clusters' folders.
        profiles: IPython's folder, which holds ipyparallel's profiles.
    """
    found = {cluster.name: cluster for cluster in (*_of_ipyparallel(profiles), *_of_ours(root))}
    return [found[name] for name in sorted(found)]


def _of_ours(root: Path) -> Iterator[FoundCluster]:
    try:
        paths = sorted(root.iterdir())
    except OSError:
        return
    for path in paths:
        folder = ClusterFolder(path)
        owners = folder.owners()
        if owners is None or not any(is_running(pid, ticks) for pid, ticks in owners):
            continue  # just being made, or left over
        is_open = folder.card.exists()
        if is_open or folder.client_file.exists() or path.name.startswith("local-"):  # a joined worker's own folder is no cluster
            yield FoundCluster(path.name, OPEN if is_open else EMBEDDED, folder.client_file, folder, tuple(owners))


def _of_ipyparallel(profiles: Path) -> Iterator[FoundCluster]:
    """Clusters of `ipcluster` and of ipyparallel's `Cluster`: each has a file beside its connection files."""
    for path in sorted(profiles.glob("profile_*/security/cluster-*.json")):
        cluster = _read(path)
        cluster_id = _cluster_id(cluster)
        client_file = (
            path.parent / f"ipcontroller-{cluster_id}-client.json" if cluster_id else path.parent / "ipcontroller-client.json"
        )
        pid = _controller_pid(cluster)
        if client_file.exists() and (pid is None or start_ticks(pid) is not None):
            profile = path.parents[1].name.removeprefix("profile_")
            yield FoundCluster(f"{profile}-{cluster_id}" if cluster_id else profile, IPYPARALLEL, client_file)


def _read(path: Path) -> dict[str, Any]:
    whole = read_if_whole(path)
    return whole if isinstance(whole, dict) else {}


def _cluster_id(cluster: dict[str, Any]) -> str:
    try:
        return str(cluster["cluster"]["cluster_id"])
    except (KeyError, TypeError):
        return ""


def _controller_pid(cluster: dict[str, Any]) -> int | None:
    """Of a controller on this machine; batch systems' have none here."""
    try:
        pid = cluster["controller"]["state"]["pid"]
    except (KeyError, TypeError):
        return None
    return pid if isinstance(pid, int) else None


def ipython_folder() -> Path:
    return Path(os.environ.get("IPYTHONDIR") or Path.home() / ".ipython")
