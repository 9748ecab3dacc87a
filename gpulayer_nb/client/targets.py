"""What `--target` names: this machine, a running cluster, an ipyparallel profile, a connection file.

Runs in the kernel. Owns the order in which a word is looked up. Connects to nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from gpulayer_nb import process
from gpulayer_nb.client.cluster import Cluster
from gpulayer_nb.client.embedded import EmbeddedCluster
from gpulayer_nb.client.remote import RemoteCluster
from gpulayer_nb.errors import UsageError
from gpulayer_nb.records.cluster_folder import ClusterFolder, clusters_root

REMOTE = "remote"


@dataclass(frozen=True)
class RunningCluster:
    """A controller on this machine that workers may join."""

    name: str
    address: str
    client_file: Path
    engine_file: Path


def open_target(target: str) -> Cluster:
    """The cluster that `target` names; nothing is connected or started yet.

    Raises:
        UsageError: it names nothing, or several; says what there is.
    """
    if target == EmbeddedCluster.target:
        return EmbeddedCluster()
    if target == REMOTE:
        return _the_one()
    path = Path(target).expanduser()
    if path.is_file():
        return RemoteCluster(target, path.resolve())
    for cluster in running_clusters():
        if cluster.name == target:
            return RemoteCluster(target, cluster.client_file)
    files = profile_files(target)
    if files:
        return RemoteCluster(target, files[0])
    raise UsageError(
        f"target is {target!r}: there is no such file, no cluster of this name runs on this machine "
        f"({_listed(running_clusters())}), and no ipyparallel profile of this name has a connection file. "
        "Next: `gpulayer controller start`, `ipcluster start --profile=NAME`, or `--target local`."
    )


def running_clusters(root: Path | None = None) -> list[RunningCluster]:
    """Controllers that `gpulayer controller start` runs on this machine for this user, by name."""
    root = root or clusters_root()
    found = []
    for path in sorted(root.iterdir()) if root.is_dir() else []:
        folder = ClusterFolder(path)
        owners = folder.owners()
        if owners is None or not any(process.is_running(pid, ticks) for pid, ticks in owners):
            continue
        try:
            card = json.loads(folder.card.read_text())
        except (FileNotFoundError, ValueError):
            continue  # a worker's or a notebook's own
        found.append(RunningCluster(card["name"], card["address"], folder.client_file, folder.engine_file))
    return found


def profile_files(profile: str) -> list[Path]:
    """Clients' connection files of an ipyparallel profile, the newest first."""
    from IPython.paths import get_ipython_dir

    security = Path(get_ipython_dir()) / f"profile_{profile}" / "security"
    files = [path for path in security.glob("ipcontroller*-client.json") if path.is_file()]
    return sorted(files, key=lambda path: path.stat().st_mtime, reverse=True)


def _the_one() -> Cluster:
    running = running_clusters()
    if not running:
        raise UsageError(
            "target is 'remote': no cluster is running on this machine. Next: `gpulayer controller start` here and "
            "`gpulayer worker start` on each machine that is to run ranks; or `--target` with a connection file."
        )
    if len(running) > 1:
        raise UsageError(f"target is 'remote', and there are several clusters: {_listed(running)}. Next: name one of them.")
    return RemoteCluster(running[0].name, running[0].client_file)


def _listed(running: list[RunningCluster]) -> str:
    return ", ".join(f"{cluster.name} at {cluster.address}" for cluster in running) or "none does"
