"""Digests see every change, and the same bytes always have the same."""

from __future__ import annotations

import numpy as np

from gpulayer_nb.shipping.digest import DigestCache, digest_buffer


def test_a_change_of_one_byte_anywhere_changes_the_digest() -> None:
    data = bytearray((8 << 20) + 5)
    first = digest_buffer(memoryview(data))
    for place in (0, 4 << 20, len(data) - 1):
        data[place] = 1
        assert digest_buffer(memoryview(data)) != first, place
        data[place] = 0
    assert digest_buffer(memoryview(data)) == first == digest_buffer(memoryview(bytes(data)))


def test_the_split_between_buffers_is_part_of_the_digest() -> None:
    cache = DigestCache()
    stream = memoryview(b"s")
    parts = [memoryview(b"ab"), memoryview(b"c")], [memoryview(b"a"), memoryview(b"bc")]
    assert cache.digest_all(stream, parts[0], 1 << 20) != cache.digest_all(stream, parts[1], 1 << 20)


def test_a_cache_hashes_memory_once_and_a_new_cache_sees_its_change() -> None:
    array = np.zeros(1000, dtype=np.uint8)
    cache = DigestCache()
    first = cache.digest(memoryview(array))
    assert cache.digest(memoryview(array)[:]) == first
    array[0] = 1
    assert DigestCache().digest(memoryview(array)) != first
