"""Shares go to the methods with the least error of late."""

import pytest

from trimtab.balancer.forecast.methods import METHODS, Values
from trimtab.balancer.forecast.record import FEWEST, HORIZONS, Record, blend

INF = float("inf")


def said(**values: float) -> list[Values]:
    """What methods say at every horizon; the rest can't tell."""
    row: Values = [None] * len(METHODS)
    for name, value in values.items():
        row[METHODS.index(name.replace("_", " "))] = value
    return [list(row) for _ in HORIZONS]


def test_the_method_that_errs_least_takes_nearly_all() -> None:
    record = Record()
    for _ in range(100):
        record.put(10.0, INF)
        record.say(said(last_value=14.0, damped_trend=12.0))
    for horizon in range(len(HORIZONS)):
        shares = dict(zip(METHODS, record.shares(horizon), strict=True))
        # Half the error: 2 to the power 8 times the share.
        assert shares["damped trend"] == pytest.approx(256 / 257)
        assert sum(shares.values()) == pytest.approx(1.0)


def test_what_a_method_did_of_late_weighs_most() -> None:
    record = Record()
    for step in range(1000):
        record.put(10.0, INF)
        good = 10.5 if step < 500 else 30.0
        record.say(said(last_value=good, damped_trend=13.0))
    shares = dict(zip(METHODS, record.shares(0), strict=True))
    assert shares["damped trend"] > 0.99


def test_each_horizon_has_its_own_error() -> None:
    record = Record()
    for _ in range(100):
        record.put(10.0, INF)
        ahead = said(last_value=10.0, damped_trend=11.0)
        ahead[-1] = said(last_value=15.0, damped_trend=11.0)[-1]
        record.say(ahead)
    assert record.errors(0)[METHODS.index("last value")] == 0.0
    assert record.errors(len(HORIZONS) - 1)[
        METHODS.index("last value")
    ] == pytest.approx(5)


def test_a_horizon_without_a_record_borrows_from_the_next_shorter() -> None:
    record = Record()
    assert record.shares(2)[METHODS.index("last value")] == 1.0
    for _ in range(FEWEST + 4):
        record.put(10.0, INF)
        record.say(said(last_value=20.0, damped_trend=10.0))
    assert record.errors(4)[0] is None
    assert record.shares(4) == record.shares(1)
    assert record.shares(4)[METHODS.index("damped trend")] == 1.0


def test_one_error_weighs_at_most_what_it_is_told() -> None:
    record = Record()
    for _ in range(100):
        record.put(10.0, INF)
        record.say(said(last_value=10.0))
    record.put(1e9, 5.0)
    # 1 of about 63 errors, discounted.
    assert record.errors(0)[0] == pytest.approx(5 / 63.4, rel=0.01)


def test_a_method_that_starts_again_has_no_record() -> None:
    record = Record()
    for _ in range(50):
        record.put(10.0, INF)
        record.say(said(last_value=10.0, damped_trend=11.0))
    record.forget([METHODS.index("last value")])
    record.put(10.0, INF)
    assert record.errors(0)[METHODS.index("last value")] is None
    assert record.shares(0)[METHODS.index("damped trend")] == 1.0


def test_a_blend_is_over_those_who_can_tell() -> None:
    assert blend([1.0, None, 5.0], [0.25, 0.5, 0.25]) == 3.0
    assert blend([None, 4.0], [1.0, 0.0]) == 4.0
    assert blend([None, None], [1.0, 0.0]) is None
