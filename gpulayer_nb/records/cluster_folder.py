"""A cluster's folder on this machine: connection files, logs, state. It goes when the cluster goes.

Made in the kernel, used by the supervisor. Owns the layout and the place of the shared-memory files.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpulayer_nb.errors import ClusterError


def clusters_root() -> Path:
    """`$XDG_RUNTIME_DIR/gpulayer` (private, gone at log-out), else a private folder in the temporary folder."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime) / "gpulayer"
    return Path(tempfile.gettempdir()) / f"gpulayer-{os.getuid()}"


@dataclass(frozen=True)
class ClusterFolder:
    path: Path

    @classmethod
    def create(cls, cluster_id: str, root: Path | None = None) -> ClusterFolder:
        """Makes it.

        Raises:
            ClusterError: another user could change what is in it.
        """
        folder = cls((root or clusters_root()) / cluster_id)
        path = folder.path
        for part in (path.parent, path, path / "log", path / "security", path / "pid", folder.blobs):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_private(part)
        return folder

    @property
    def cluster_id(self) -> str:
        return self.path.name

    @property
    def card(self) -> Path:
        """Only a controller that workers of other machines may join has one: its name and address as JSON."""
        return self.path / "cluster.json"

    @property
    def engine_file(self) -> Path:
        return self.path / "security" / "ipcontroller-engine.json"

    @property
    def client_file(self) -> Path:
        return self.path / "security" / "ipcontroller-client.json"

    @property
    def state(self) -> Path:
        return self.path / "state.json"

    @property
    def owner(self) -> Path:
        """For whom the cluster runs: it is left over when all of them are gone."""
        return self.path / "owner.json"

    def add_owner(self, pid: int, ticks: int | None) -> None:
        """Notes another process for whom the cluster runs, as pid and start ticks."""
        owners = [*(self.owners() or ()), (pid, ticks)]
        temporary = self.path / f".owner-{pid}"
        temporary.write_text(json.dumps(owners))
        temporary.replace(self.owner)

    def owners(self) -> list[tuple[int, int | None]] | None:
        """None if the folder is just being made, is not a cluster's, or was made by a release that wrote it otherwise."""
        try:
            return [(pid, ticks) for pid, ticks in json.loads(self.owner.read_text())]
        except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
            return None

    @property
    def logs(self) -> Path:
        return self.path / "log"

    @property
    def blobs(self) -> Path:
        """Big buffers, in memory where the system has a memory file system; the name alone leads from the folder to it."""
        shared = Path("/dev/shm")
        base = shared if os.access(shared, os.W_OK) else self.path
        return base / f"gpulayer-{os.getuid()}-{self.cluster_id}"

    def log_tail(self, name: str, lines: int = 12) -> str:
        try:
            return "\n".join((self.logs / name).read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return ""


def _check_private(folder: Path) -> None:
    """In a place that all may write to, such as /tmp, another user can make a folder of our name first."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ClusterError(
            f"{folder} has to be a folder of yours that nobody else can write to, because keys lie there; it belongs to user "
            f"{found.st_uid}, mode {stat.filemode(found.st_mode)}. Next: remove it, or set XDG_RUNTIME_DIR to a folder of yours."
        )
