"""Files of a run that lie on a worker: which are there, and a copy of one here.

Runs wherever a run is read, also long after it, as long as its cluster is up. Owns a connection for as long as it takes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulayer_nb.errors import ClusterError
from gpulayer_nb.link.connection import Connection
from gpulayer_nb.link.reach import unreachable
from gpulayer_nb.link.supervisors import supervisors_of
from gpulayer_nb.records import wire
from gpulayer_nb.records.connection_file import read_if_whole

_PIECE_BYTES = 1 << 20
_PIECE_SECONDS = 60.0


@dataclass(frozen=True)
class FarFolder:
    """What a run left on another machine: the controller's file here, the worker's key and name."""

    client_file: str
    worker: str
    name: str

    def existing(self, paths: Sequence[Path]) -> list[Path]:
        """Those that are there now.

        Raises:
            ClusterError: the worker cannot be asked.
        """
        with self._open() as (connection, supervisor):
            return [path for path in paths if "refused" not in _piece(connection, supervisor, path, 0, 0)["content"]]

    def copy(self, path: Path, to: Path) -> None:
        """The file's copy under another name here; whole or not at all.

        Raises:
            ClusterError: the worker is gone, or has no such file any more.
        """
        to.parent.mkdir(parents=True, exist_ok=True)
        partial = to.with_name(f".{to.name}.{os.getpid()}")
        with self._open() as (connection, supervisor), partial.open("wb") as file:
            size = 1
            while file.tell() < size:
                reply = _piece(connection, supervisor, path, file.tell(), _PIECE_BYTES)
                refused = reply["content"].get("refused")
                if refused:
                    partial.unlink(missing_ok=True)
                    raise ClusterError(f"Worker {self.name} cannot give the file: {refused}.")
                size = reply["content"]["size"]
                piece = reply["buffers"][0]
                if not len(piece) and file.tell() < size:
                    raise ClusterError(f"{path} on worker {self.name} was cut while it was read. Next: fetch it again.")
                file.write(piece)
        partial.replace(to)

    @contextlib.contextmanager
    def _open(self) -> Iterator[tuple[Connection, str]]:
        info = read_if_whole(Path(self.client_file))
        why = "its connection file is gone" if info is None else unreachable(info)
        if why is not None:
            raise ClusterError(f"The run's files are on worker {self.name}, and its cluster is not up: {why}.")
        connection = Connection(Path(self.client_file))
        try:
            supervisor = supervisors_of(connection).get(self.worker)
            if supervisor is None:
                raise ClusterError(f"The run's files are on worker {self.name}, which has left the cluster.")
            yield connection, supervisor
        finally:
            connection.close()


def _piece(connection: Connection, supervisor: str, path: Path, offset: int, size: int) -> dict[str, Any]:
    content = {"path": str(path), "offset": offset, "size": size}
    future = connection.begin(supervisor, wire.GET_FILE, content)
    future.wait(_PIECE_SECONDS)
    if not future.done():
        raise ClusterError(f"The worker has not answered in {_PIECE_SECONDS:.0f} s. Next: fetch {path.name} again.")
    reply: dict[str, Any] = future.result()
    return reply
