"""Thinning keeps what the eye looks for, at a bounded size."""

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulayer_nb.records.curve import MAX_BUCKETS, MAX_POINTS, Curve, TrailingMean

values = st.lists(st.floats(-1e6, 1e6) | st.just(math.nan) | st.just(math.inf), min_size=1, max_size=400)


def fed(numbers: list[float], chunk: int = 37) -> Curve:
    curve = Curve()
    for at in range(0, len(numbers), chunk):
        curve.extend(range(at + 1, min(at + chunk, len(numbers)) + 1), numbers[at : at + chunk])
    return curve


@given(values, st.integers(1, 30), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_first_last_extremes_and_gaps_survive_any_thinning(numbers: list[float], repeats: int, chunk: int) -> None:
    numbers = numbers * repeats
    steps, drawn = fed(numbers, chunk).points()
    finite = [v for v in numbers if math.isfinite(v)]
    assert len(steps) <= MAX_POINTS <= 2000
    assert steps == sorted(set(steps)), "steps rise and none is twice"
    assert steps[0] == 1
    assert steps[-1] == len(numbers)
    assert all(v == numbers[s - 1] or not math.isfinite(numbers[s - 1]) for s, v in zip(steps, drawn, strict=True))
    if finite:
        assert min(v for v in drawn if math.isfinite(v)) == min(finite)
        assert max(v for v in drawn if math.isfinite(v)) == max(finite)
    assert any(map(math.isnan, drawn)) == (len(finite) < len(numbers)), "a gap is a gap at any length"


def test_every_value_of_a_short_curve_is_drawn() -> None:
    numbers = [float(i * i % 17) for i in range(MAX_BUCKETS - 1)]
    assert fed(numbers).points() == (list(range(1, MAX_BUCKETS)), numbers)


def test_the_last_drawn_value_is_the_logged_one_at_every_length() -> None:
    curve = Curve()
    for step in range(1, 5000):
        curve.extend((step,), (math.sin(step),))
        if step % 97 == 0:
            assert curve.points()[0][-1] == step
            assert curve.points()[1][-1] == math.sin(step)


def test_an_empty_curve_has_no_points() -> None:
    assert Curve().points() == ([], [])


def test_drawing_a_long_curve_costs_no_more_than_a_short_one() -> None:
    def cost(curve: Curve) -> float:
        began = time.process_time()
        for _ in range(20):
            curve.points()
        return time.process_time() - began

    short, long = fed([float(i % 91) for i in range(2_000)], 250), fed([float(i % 91) for i in range(200_000)], 250)
    assert min(cost(long) for _ in range(3)) <= 2 * min(cost(short) for _ in range(3)) + 0.005


def test_the_trailing_mean_looks_back_only() -> None:
    mean = TrailingMean(3)
    assert mean.extend([3.0, 6.0]) == [3.0, 4.5]
    assert mean.extend([9.0, 0.0]) == [6.0, 5.0]


def test_the_trailing_mean_leaves_out_what_is_not_finite_and_shows_a_gap_there() -> None:
    means = TrailingMean(3).extend([1.0, math.nan, 3.0, math.inf, 5.0, 7.0, 9.0])
    assert [m if math.isfinite(m) else None for m in means] == [1.0, None, 2.0, None, 4.0, 6.0, 7.0]


def test_the_trailing_mean_forgets_a_spike_completely() -> None:
    means = TrailingMean(25).extend([1e30] + [0.1] * 30)
    assert means[-1] == pytest.approx(0.1, rel=1e-12)
