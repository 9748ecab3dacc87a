"""Big buffers as files named by their content, on /dev/shm where there is one.

Written in the kernel (and on ranks for results), mapped by every rank of the machine. Owns the folder it was given.
Must not know what the bytes mean or when the ranks have read them.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import threading
import uuid
from collections.abc import Collection
from pathlib import Path

from gpulayer_nb.errors import ShippingError
from gpulayer_nb.shipping.shipment import BufferRef

BIG_BYTES = 256 << 10  # smaller buffers travel in the message
_SLOW_TO_REMOVE_BYTES = 16 << 20  # the system frees memory page by page: 200 MB take 30 ms, for which no cell has to wait
_GONE = ".gone-"


class BlobStore:
    """Write-once files in `folder`, each named by the digest of its bytes. Only the owner can read them."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._removals: list[threading.Thread] = []

    def path_of(self, digest: str) -> Path:
        return self.folder / digest

    def has(self, digest: str) -> bool:
        return self.path_of(digest).exists()

    def put(self, digest: str, view: memoryview | bytes) -> Path:
        """Write the bytes unless a file with this digest is there; a reader never sees half a file.

        Raises:
            ShippingError: the folder has no room for them.
        """
        path = self.path_of(digest)
        if path.exists():
            return path
        while self._removals:
            self._removals.pop().join()  # for the room
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = self.folder / f"{digest}.{os.getpid()}.part"
        try:
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb", buffering=0) as file:
                rest = memoryview(view)
                while len(rest):  # a raw write may take less than it was given
                    rest = rest[file.write(rest) :]
            os.replace(partial, path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise ShippingError(_no_room(self.folder, len(view))) from error
        return path

    def discard(self, except_digests: Collection[str] = ()) -> None:
        """Remove every file but these. A rank that has mapped a file keeps its pages."""
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                if path.name in except_digests or path.name.startswith(_GONE):
                    continue
                if path.stat().st_size < _SLOW_TO_REMOVE_BYTES:
                    path.unlink(missing_ok=True)
                else:  # under its name another file may be put meanwhile
                    gone = path.rename(self.folder / f"{_GONE}{uuid.uuid4().hex}")
                    removal = threading.Thread(target=gone.unlink, args=(True,), name="gpulayer-unlink", daemon=True)
                    removal.start()
                    self._removals.append(removal)

    def load(self, ref: BufferRef) -> memoryview:
        """Map the file that this store holds for `ref`: for a machine that was given copies of the sender's files."""
        return map_file(self.path_of(ref.digest), ref.size_bytes)


def load_blob(ref: BufferRef) -> memoryview:
    """Map the file that `ref` names on this machine."""
    return map_file(Path(ref.path or ""), ref.size_bytes)


def map_file(path: Path, size_bytes: int) -> memoryview:
    """The file's bytes, writable: pages are shared with all other readers until this process writes to them.

    Raises:
        ShippingError: the file is not there or not whole.
    """
    try:
        with open(path, "rb") as file:
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    except (OSError, ValueError) as error:
        raise ShippingError(
            f"A shipped buffer of {_digits(size_bytes)} bytes is gone from {path.parent} ({error}). Next: run the cell again."
        ) from error
    if len(view) != size_bytes:
        raise ShippingError(
            f"A shipped buffer has {_digits(len(view))} bytes, not {_digits(size_bytes)}, in {path}. Next: run the cell again."
        )
    return view


def _no_room(folder: Path, size_bytes: int) -> str:
    free = shutil.disk_usage(folder).free
    return (
        f"The ranks need a buffer of {size_bytes >> 20} MiB, and {folder} has {free >> 20} MiB free. "
        f"Next: delete big variables, or give the machine more shared memory (a container: `--shm-size`)."
    )


def _digits(number: int) -> str:
    return f"{number:,}".replace(",", "\u202f")  # narrow space, as everywhere the user reads a count
