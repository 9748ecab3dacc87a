"""Digests of buffers: the name under which bytes are stored and by which a change is noticed.

Runs where values are packed. Owns the choice of hash and its use of the processors. Must not know what the bytes mean.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

# sha256 is the fastest of hashlib where the processor has instructions for it (measured 750 MB/s on one core; blake2b 410).
CHUNK_BYTES = 4 << 20
_THREADED_BYTES = 2 * CHUNK_BYTES


def digest_buffer(view: memoryview) -> str:
    """The digest of a run of bytes: sha256 of the sha256 of its 4 MiB chunks, computed on several processors.

    Args:
        view: one-dimensional, contiguous, of single bytes.
    """
    chunks = [view[start : start + CHUNK_BYTES] for start in range(0, len(view), CHUNK_BYTES)]
    if len(view) >= _THREADED_BYTES and (threads := min(len(chunks), usable_processors(), 8)) > 1:
        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(_sha256, chunks))
    else:
        parts = [_sha256(chunk) for chunk in chunks]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _sha256(view: memoryview) -> bytes:
    return hashlib.sha256(view).digest()


def usable_processors() -> int:
    """Processors this process may use; fewer than the machine has where a scheduler or a container says so."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class DigestCache:
    """Digests of buffers at the same address, valid while nothing writes to them: for one packing, never longer."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[str, memoryview]] = {}  # the view keeps the address from being used again

    def digest(self, view: memoryview) -> str:
        address = address_of(view)
        if address is None:
            return digest_buffer(view)
        key = (address, len(view))
        if key not in self._known:
            self._known[key] = (digest_buffer(view), view)
        return self._known[key][0]

    def digest_all(self, stream: memoryview, buffers: Iterable[memoryview], big_bytes: int) -> str:
        """One digest for a pickle and its buffers; those of `big_bytes` or more are remembered by address."""
        whole = hashlib.sha256(digest_buffer(stream).encode() if len(stream) >= _THREADED_BYTES else stream)
        for view in buffers:
            whole.update(len(view).to_bytes(8, "little"))
            whole.update(self.digest(view).encode() if len(view) >= big_bytes else view)
        return whole.hexdigest()


def address_of(view: memoryview) -> int | None:
    """Where the bytes lie, if numpy is loaded to tell (read-only memory has no other portable way)."""
    numpy = sys.modules.get("numpy")
    if numpy is None or len(view) == 0:
        return None
    return int(numpy.frombuffer(view, dtype=numpy.uint8).__array_interface__["data"][0])
