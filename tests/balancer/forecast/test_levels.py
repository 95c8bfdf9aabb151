"""Levels: means, medians and the damped trend against their definitions."""

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.forecast.levels import Mean, Median, Trend

values = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60)


@given(values, st.integers(1, 9))
def test_a_running_median_is_the_median_of_the_last_values(
    held: list[float], size: int
) -> None:
    one = Median(size)
    for value in held:
        one.put(value)
    assert one.level == median(held[-size:])


def test_a_mean_starts_at_the_first_value_and_moves_by_its_gain() -> None:
    one = Mean(0.25)
    levels = [one.level]
    for value in (8.0, 4.0):
        one.put(value)
        levels.append(one.level)
    assert levels == [None, 8.0, 7.0]


def test_a_damped_trend_follows_a_slope_and_then_levels_off() -> None:
    one = Trend()
    assert one.ahead(1) is None
    for step in range(200):
        one.put(float(step))
    ahead = [one.ahead(steps) or 0.0 for steps in (1, 2, 30, 1000)]
    assert 195.0 < ahead[0] < ahead[1] < ahead[2]
    # The slope dies away: at most 0.9 / (1 - 0.9) = 9 steps of it are to come.
    assert ahead[3] - ahead[0] < 9.0
    assert ahead[3] == pytest.approx(one.ahead(2000))
