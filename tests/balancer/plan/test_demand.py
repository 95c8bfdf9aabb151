"""Demand of a forecast."""

import pytest

from trimtab.balancer.forecast import Expected
from trimtab.balancer.plan.demand import CAUTION, rates


def test_demand_is_the_forecast_and_a_part_of_its_band_by_the_second() -> None:
    expected = [Expected(10.0, 20.0, 5.0, 40.0), Expected(20.0, 60.0, 5.0, 70.0)]
    assert rates(expected, 10.0, None) == pytest.approx(
        (2.0 + 2.0 * CAUTION, 6.0 + 1.0 * CAUTION)
    )


def test_what_is_asked_for_now_goes_on_whatever_is_foreseen() -> None:
    expected = [Expected(10.0, 20.0, None, None), Expected(20.0, 90.0, None, None)]
    assert rates(expected, 10.0, 4.0) == (4.0, 9.0)


def test_nothing_foreseen_is_no_demand_known() -> None:
    assert rates([], 10.0, 4.0) is None
