"""Files that a client has sent to this worker, once for all its ranks: shared memory where there is some.

Runs in the supervisor. Owns the folder it was given, which is one client's; a reader never sees half a file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any


class ReceivedFiles:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()

    def missing(self, sizes: Mapping[str, int], keep: Collection[str]) -> list[str]:
        """Which of these files are not here whole. Others are removed unless they are to be kept."""
        with self._lock:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in self.folder.iterdir():
                if path.name not in keep and path.name not in sizes:
                    path.unlink(missing_ok=True)
            return [name for name, size in sizes.items() if not self._is_whole(name, size)]

    def _is_whole(self, name: str, size: int) -> bool:
        try:
            return self._path(name).stat().st_size == size
        except FileNotFoundError:
            return False

    def put(self, name: str, offset: int, size: int, piece: Any) -> None:
        """One piece of a file of `size` bytes; pieces come in order. The file appears with its last.

        Raises:
            OSError: there is no room for it.
        """
        with self._lock:
            partial = self._path(name).with_name(f".{name}.part")
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT, 0o600), "r+b" if offset else "wb", buffering=0) as file:
                file.seek(offset)
                rest = memoryview(piece)
                while len(rest):  # a raw write may take less than it was given
                    rest = rest[file.write(rest) :]
                whole = file.tell() == size
            if whole:
                os.replace(partial, self._path(name))

    def _path(self, name: str) -> Path:
        if name != os.path.basename(name) or name.startswith("."):
            raise OSError(f"{name} is no name of a file")
        return self.folder / name
