"""Numbers as people read them."""

import math

import pytest

from gpulayer_nb.ui import number

T = number.THIN


@pytest.mark.parametrize(
    ("value", "words"),
    [(5230.4, f"5{T}230"), (41.23, "41.2"), (0.8734, "0.873"), (0, "0"), (None, "–"), (999.6, f"1{T}000"), (9.996, "10.0")],
)
def test_rates_have_three_digits(value, words):
    assert number.rate(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.1234, "0.123"), (0.00042, "4.2e-4"), (-2.0, "-2.000"), (1234.5, f"1{T}234.500"), (12_345_678, "1.23e7"),
     (math.nan, "NaN"), (-math.inf, "-∞"), (0.0, "0"), (None, "–")],
)  # fmt: skip
def test_metrics_have_three_decimals(value, words):
    assert number.metric(value) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(28, "0:28"), (83.9, "1:23"), (3723, "1:02:03"), (187_900, "2 d 04:11"), (None, "–")]
)
def test_clocks(seconds, words):
    assert number.clock(seconds) == words


@pytest.mark.parametrize(
    ("mib", "words"), [(412, "412 MiB"), (3.21 * 1024, "3.21 GiB"), (15.6 * 1024, "15.6 GiB"), (1023.8, "1.00 GiB"), (None, "–")]
)
def test_memory(mib, words):
    assert number.memory(None if mib is None else int(mib * 2**20)) == words
