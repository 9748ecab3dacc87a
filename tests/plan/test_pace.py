"""Exchanges of metrics keep near a quarter of a second apart, whatever the first measurement says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpulayer_nb.plan.pace import GROWTH, steps_until_flush


def test_the_target_is_a_quarter_of_a_second() -> None:
    assert steps_until_flush(0.001, 250) == 250
    assert steps_until_flush(0.01, 25) == 25
    assert steps_until_flush(0.1, 2) == 2


def test_slow_steps_are_exchanged_one_by_one() -> None:
    assert steps_until_flush(3.0, 1) == 1
    assert steps_until_flush(60.0, 400) == 1


def test_one_fast_measurement_raises_the_wait_at_most_fourfold() -> None:
    assert steps_until_flush(1e-6, 1) == 4
    assert steps_until_flush(0.0, 16) == 64


def test_after_a_slow_first_step_the_target_is_reached_in_few_exchanges() -> None:
    steps, exchanges = steps_until_flush(3.0, 1), 1
    while steps < 250:
        steps, exchanges = steps_until_flush(0.001, steps), exchanges + 1
    assert steps == 250
    assert exchanges <= 6


@given(st.floats(0, 1e4), st.integers(0, 10**6))
def test_the_answer_is_at_least_one_step_and_growth_is_bounded(seconds: float, previous: int) -> None:
    assert 1 <= steps_until_flush(seconds, previous) <= max(1, previous) * GROWTH
