"""The scripts that launches bring to this worker: kept by content, laid out once a launch.

Runs in the supervisor's process. Owns two folders below the user's data folder. Must not know agents.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

_DIGEST = re.compile(r"[0-9a-f]{64}")
_RUN_ID = re.compile(r"[\w-]+")


class LaunchFiles:
    """Args: root: the user's data folder on this machine."""

    def __init__(self, root: Path) -> None:
        self._store = root / "launch-files"
        self._runs = root / "launches"

    def are_in_place(self, root: str, files: Mapping[str, str]) -> bool:
        """Whether this machine has the very same files at the very same place: it shares the client's file system."""
        return all(self._digest(Path(root) / name) == digest for name, digest in files.items())

    def missing(self, files: Mapping[str, str]) -> list[str]:
        """Digests whose content has never been here."""
        return sorted({digest for digest in files.values() if not self._stored(digest).exists()})

    def take(self, digest: str, offset: int, data: str, size: int) -> None:
        """A piece of a file's content, in base64; pieces come in order.

        Raises:
            ValueError: the whole is not what its digest says.
        """
        path = self._stored(digest)
        partial = path.with_suffix(f".{os.getpid()}")
        self._store.mkdir(mode=0o700, parents=True, exist_ok=True)
        with partial.open("r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(base64.b64decode(data))
        if partial.stat().st_size == size:
            if self._digest(partial) != digest:
                partial.unlink()
                raise ValueError(f"content and digest {digest[:12]} do not agree")
            partial.replace(path)

    def lay_out(self, run_id: str, files: Mapping[str, str]) -> Path:
        """A folder with copies of these files; it stays, because the script writes there too."""
        if not _RUN_ID.fullmatch(run_id):
            raise ValueError(f"{run_id!r} names no run")
        folder = self._runs / run_id
        for name, digest in files.items():
            target = (folder / name).resolve()
            if not target.is_relative_to(folder.resolve()):
                raise ValueError(f"{name!r} leads out of the folder")
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            target.write_bytes(self._stored(digest).read_bytes())
        return folder

    def _stored(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"{digest!r} is no digest")
        return self._store / digest

    @staticmethod
    def _digest(path: Path) -> str | None:
        try:
            return hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            return None
