"""Sends files to workers, each once for all ranks of a worker, in pieces through the controller.

Runs in the kernel. Owns the pieces: few enough on the way that a control request is never long behind them.
"""

from __future__ import annotations

import mmap
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpulayer_nb.errors import ClusterError
from gpulayer_nb.link.connection import Connection
from gpulayer_nb.records import wire

_ON_THE_WAY = 8  # pieces
_PIECE_SECONDS = 60.0  # on a line of 1 Mbit/s eight of the smallest pieces take four
# of a piece; each costs every process on its way some 5 ms
_LEAST_BYTES, _FIRST_BYTES, _MOST_BYTES = 64 << 10, 512 << 10, 4 << 20
_SHORT_SECONDS, _LONG_SECONDS = 0.3, 0.6  # from sending a piece to its answer, with all those before it


def send_files(connection: Connection, client: str, wanted: Mapping[str, Sequence[Path]], names: Mapping[str, str]) -> int:
    """Brings files to supervisors; returns how many bytes have travelled.

    Args:
        client: this client's token.
        wanted: the files that each supervisor lacks, by its uuid.
        names: the workers' names, for errors.

    Raises:
        ClusterError: a worker has no room, or does not answer.
    """
    on_the_way: deque[tuple[str, Any, int, float]] = deque()
    sent, pace = 0, Pace()

    def take_one() -> None:
        supervisor, future, size, began = on_the_way.popleft()
        _wait(supervisor, future, names)
        pace.took(size, time.monotonic() - began)

    for supervisor, content, piece in _pieces(client, wanted, pace):
        on_the_way.append(
            (supervisor, connection.begin(supervisor, wire.PUT_FILE, content, [piece]), len(piece), time.monotonic())
        )
        sent += len(piece)
        if len(on_the_way) >= _ON_THE_WAY:
            take_one()
    while on_the_way:
        take_one()
    return sent


class Pace:
    """How big pieces are: few and big on a fast line, so small on a slow one that a control request is never long behind them."""

    def __init__(self) -> None:
        self.piece_bytes = _FIRST_BYTES

    def took(self, size_bytes: int, seconds: float) -> None:
        """A piece of this size was answered so long after it was sent."""
        if size_bytes >= self.piece_bytes and seconds < _SHORT_SECONDS:
            self.piece_bytes = min(2 * self.piece_bytes, _MOST_BYTES)
        elif size_bytes <= self.piece_bytes and seconds > _LONG_SECONDS:
            self.piece_bytes = max(self.piece_bytes // 2, _LEAST_BYTES)


def _pieces(client: str, wanted: Mapping[str, Sequence[Path]], pace: Pace) -> Iterator[tuple[str, dict[str, Any], memoryview]]:
    """File by file and piece by piece, each to all that lack it, so that no worker waits for another's whole load."""
    files = {path: [s for s, paths in wanted.items() if path in paths] for paths in wanted.values() for path in paths}
    for path, supervisors in files.items():
        with open(path, "rb") as file:
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))  # goes with its last piece
        offset = 0
        while offset < len(view):
            piece = view[offset : offset + pace.piece_bytes]
            content = {"client": client, "name": path.name, "offset": offset, "size": len(view)}
            for supervisor in supervisors:
                yield supervisor, content, piece
            offset += len(piece)


def _wait(supervisor: str, future: Any, names: Mapping[str, str]) -> None:
    deadline = time.monotonic() + _PIECE_SECONDS
    while not future.done() and time.monotonic() < deadline:
        future.wait(0.5)
    if not future.done():
        raise ClusterError(
            f"Worker {names[supervisor]} has not taken what the cell needs: no answer in {_PIECE_SECONDS:.0f} s. "
            "Next: `%gpulayer workers`, then run the cell again."
        )
    refused = future.result()["content"].get("refused")
    if refused:
        raise ClusterError(
            f"Worker {names[supervisor]} cannot take what the cell needs: {refused}. "
            "Next: delete big variables, or give that machine more shared memory (a container: `--shm-size`)."
        )
