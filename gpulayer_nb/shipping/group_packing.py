"""From a pickling to what travels: big buffers into files, small ones together into one.

Runs where values are packed. Owns the layout of a packed group. Must not know names' meaning.
"""

from __future__ import annotations

from gpulayer_nb.shipping.blobs import BIG_BYTES, BlobStore
from gpulayer_nb.shipping.digest import DigestCache
from gpulayer_nb.shipping.dump import Dump
from gpulayer_nb.shipping.shipment import BufferRef, PackedGroup

_ALIGN_BYTES = 64  # of every small buffer in the pool: what vector instructions like


def pack_group(dumped: Dump, digests: DigestCache, blobs: BlobStore | None) -> tuple[PackedGroup, set[str]]:
    """The group, and the digests of the files it needs.

    Args:
        dumped: the pickling.
        digests: of this packing.
        blobs: where big buffers go; None keeps everything in the message.
    """
    pool = bytearray()
    chunks: list[BufferRef] = []
    spans: list[tuple[int, int, int]] = []  # the pool is chunk -1 until its place is known
    for view in dumped.buffers:
        if len(view) >= BIG_BYTES:  # each its own chunk, also where two hold the same: two arrays must not become one memory
            spans.append((len(chunks), 0, len(view)))
            chunks.append(_ref(view, digests, blobs))
        else:
            pool.extend(bytes(-len(pool) % _ALIGN_BYTES))
            spans.append((-1, len(pool), len(view)))
            pool.extend(view)
    if any(chunk < 0 for chunk, _, _ in spans):
        spans = [(len(chunks) if chunk < 0 else chunk, offset, size) for chunk, offset, size in spans]
        chunks.append(_ref(memoryview(pool), digests, blobs))
    group = PackedGroup(dumped.names, _ref(dumped.stream, digests, blobs), tuple(chunks), tuple(spans))
    return group, {ref.digest for ref in group.refs() if ref.path is not None}


def _ref(view: memoryview, digests: DigestCache, blobs: BlobStore | None) -> BufferRef:
    if blobs is None or len(view) < BIG_BYTES:
        return BufferRef("", len(view), inline=bytes(view))
    digest = digests.digest(view)
    return BufferRef(digest, len(view), path=str(blobs.put(digest, view)))
