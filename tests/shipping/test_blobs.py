"""Big buffers in files: written once, whole, private, and copied on write."""

from __future__ import annotations

import os
import stat

import pytest

from gpulayer_nb.errors import ShippingError
from gpulayer_nb.shipping.blobs import BlobStore, load_blob
from gpulayer_nb.shipping.shipment import BufferRef


def test_two_readers_share_the_file_until_one_writes(blobs: BlobStore) -> None:
    path = blobs.put("d1", b"abc")
    ref = BufferRef("d1", 3, path=str(path))
    one, two = load_blob(ref), blobs.load(ref)
    one[0] = ord("X")
    assert bytes(one) == b"Xbc"
    assert bytes(two) == path.read_bytes() == b"abc"


def test_a_file_is_written_once_and_only_its_owner_can_read_it(blobs: BlobStore) -> None:
    path = blobs.put("d1", b"abc")
    before = path.stat()
    blobs.put("d1", b"abc")
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert stat.S_IMODE(before.st_mode) == 0o600
    assert stat.S_IMODE(blobs.folder.stat().st_mode) == 0o700
    assert [p.name for p in blobs.folder.iterdir()] == ["d1"]


def test_discard_leaves_what_is_named_and_what_is_mapped(blobs: BlobStore) -> None:
    paths = {name: blobs.put(name, name.encode()) for name in ("d1", "d2")}
    mapped = load_blob(BufferRef("d2", 2, path=str(paths["d2"])))
    blobs.discard(except_digests={"d1"})
    assert blobs.has("d1")
    assert not blobs.has("d2")
    assert bytes(mapped) == b"d2"


def test_a_big_file_is_gone_at_once_and_its_room_before_the_next_is_put(blobs: BlobStore) -> None:
    big = bytes(32 << 20)
    blobs.put("d1", big)
    blobs.discard()
    assert not blobs.has("d1")
    blobs.put("d1", big)
    assert [path.name for path in blobs.folder.iterdir()] == ["d1"]
    blobs.discard(except_digests={"d1"})
    assert blobs.has("d1")


def test_a_missing_or_short_file_says_what_to_do(blobs: BlobStore) -> None:
    path = blobs.put("d1", b"abc")
    with pytest.raises(ShippingError, match="has 3 bytes, not 1\u202f000, in .* Next: run the cell again"):
        load_blob(BufferRef("d1", 1000, path=str(path)))
    path.unlink()
    with pytest.raises(ShippingError, match="of 3 bytes is gone from .* Next: run the cell again"):
        load_blob(BufferRef("d1", 3, path=str(path)))


def test_a_full_folder_says_how_much_was_asked_and_how_much_is_free(blobs: BlobStore) -> None:
    blobs.folder.mkdir()
    (blobs.folder / f"d1.{os.getpid()}.part").symlink_to("/dev/full")  # a file that no byte fits into
    with pytest.raises(ShippingError, match=r"need a buffer of 2 MiB, and .* has \d+ MiB free. Next: delete big variables"):
        blobs.put("d1", bytes(2 << 20))
    assert list(blobs.folder.iterdir()) == []
