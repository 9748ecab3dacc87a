"""Pieces of files: as big as the line is fast."""

from __future__ import annotations

import pytest

from gpulayer_nb.client.sending import _ON_THE_WAY, Pace


@pytest.mark.parametrize(
    ("bits_per_second", "piece_bytes"), [(10e9, 4 << 20), (1e9, 4 << 20), (100e6, 512 << 10), (10e6, 64 << 10)]
)
def test_pieces_grow_until_all_that_are_on_the_way_take_a_third_of_a_second(bits_per_second, piece_bytes):
    pace = Pace()
    for _ in range(50):
        pace.took(pace.piece_bytes, _ON_THE_WAY * pace.piece_bytes / (bits_per_second / 8))
    assert pace.piece_bytes == piece_bytes


def test_answers_to_pieces_of_another_size_say_nothing():
    pace = Pace()
    first = pace.piece_bytes
    pace.took(first // 2, 0.01)  # the short end of a file
    pace.took(2 * first, 5.0)  # on its way since before the size was halved
    assert pace.piece_bytes == first
