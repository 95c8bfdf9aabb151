"""The profile of the day and the week."""

import json
from statistics import median

import pytest

from trimtab.balancer.forecast.days import BINS, DAY_S, KEPT, PROFILE, Days

HOUR_S = 3600.0


def hourly(values: list[list[float]]) -> Days:
    """A profile of days of hours, from 1 January 1970 on."""
    days = Days(HOUR_S)
    for day, row in enumerate(values):
        for hour, value in enumerate(row):
            days.put(day * DAY_S + hour * HOUR_S, value, suspect=False)
    return days


def test_the_usual_value_is_the_median_of_the_hour_over_the_last_days() -> None:
    rows = [[100.0 * day + hour for hour in range(24)] for day in (3, 1, 9, 4, 2)]
    days = hourly(rows)
    for hour in range(24):
        expected = median(row[hour] for row in rows)
        # 16 bits a value: near, not equal.
        assert days.day(5 * DAY_S + hour * HOUR_S) == pytest.approx(expected, rel=1e-3)


def test_one_odd_day_moves_nothing() -> None:
    days = hourly([[10.0] * 24, [10.0] * 24, [9000.0] * 24, [10.0] * 24])
    assert days.day(4 * DAY_S) == pytest.approx(10.0, abs=0.5)


def test_the_week_knows_its_days_apart() -> None:
    days = hourly([[50.0 if day % 7 < 5 else 5.0] * 24 for day in range(21)])
    assert days.week(21 * DAY_S) == pytest.approx(50.0, rel=1e-3)
    assert days.week(26 * DAY_S) == pytest.approx(5.0, rel=1e-3)
    assert days.week(26 * DAY_S) != days.day(26 * DAY_S)


def test_what_was_never_read_is_not_known() -> None:
    days = Days(HOUR_S)
    assert days.day(0.0) is None
    days.put(0.0, 7.0, suspect=False)
    assert days.day(0.0) is None  # today is not yet usual
    assert days.day(DAY_S) == 7.0
    assert days.day(DAY_S + HOUR_S) is None
    assert days.week(DAY_S) is None
    assert days.week(7 * DAY_S) == 7.0


def test_a_suspect_reading_counts_only_where_it_repeats() -> None:
    days = Days(HOUR_S)
    days.put(0.0, 500.0, suspect=True)
    assert days.day(DAY_S) is None
    days.put(DAY_S, 5.0, suspect=False)
    days.put(2 * DAY_S, 600.0, suspect=True)
    # Two odd nights of three are a pattern: the median of 5, 500 and 600.
    assert days.day(3 * DAY_S) == pytest.approx(500.0, rel=1e-3)


def test_one_suspect_beside_sound_readings_is_left_out() -> None:
    days = Days(HOUR_S)
    days.put(0.0, 4.0, suspect=False)
    days.put(DAY_S, 500.0, suspect=True)
    assert days.day(2 * DAY_S) == pytest.approx(4.0, rel=1e-3)


def test_steps_within_a_bin_are_averaged_and_bins_are_joined_by_lines() -> None:
    days = Days(10.0)
    assert days.bins == BINS
    for step in range(90):  # three bins of 30 steps: 0, 30, 60
        days.put(step * 10.0, step // 30 * 30.0, suspect=False)
    middle = DAY_S + 450.0  # of the second bin
    assert days.day(middle) == pytest.approx(30.0, rel=1e-3)
    assert days.day(middle + 150.0) == pytest.approx(45.0, rel=1e-3)


def test_memory_is_bounded_and_old_days_go() -> None:
    days = hourly([[float(day)] * 24 for day in range(KEPT + 30)])
    now = KEPT + 30
    assert len(days.state()["rows"]) <= KEPT + 1
    expected = median(range(now - PROFILE, now))
    assert days.day(now * DAY_S) == pytest.approx(expected, rel=1e-3)


def test_a_large_value_late_in_a_day_keeps_the_small_ones_nearly() -> None:
    days = Days(HOUR_S)
    days.put(0.0, 1.0, suspect=False)
    days.put(HOUR_S, 1000.0, suspect=False)
    assert days.day(DAY_S) == pytest.approx(1.0, abs=0.2)
    assert days.day(DAY_S + HOUR_S) == pytest.approx(1000.0, rel=1e-3)


def test_an_answer_asked_for_early_is_the_one_given_later() -> None:
    asked, silent = Days(HOUR_S), Days(HOUR_S)
    for step in range(24 * 9):
        for days in (asked, silent):
            days.put(step * HOUR_S, float(step * 7 % 31), suspect=False)
        for ahead in range(1, 24 * 8):
            asked.day((step + ahead) * HOUR_S)
            asked.week((step + ahead) * HOUR_S)
    for ahead in range(1, 24):
        at_s = (24 * 9 - 1 + ahead) * HOUR_S
        assert asked.day(at_s) == silent.day(at_s)
        assert asked.week(at_s) == silent.week(at_s)


def test_the_state_comes_back_from_json_and_goes_on_alike() -> None:
    days = hourly([[float(day * hour) for hour in range(24)] for day in range(9)])
    back = Days(HOUR_S)
    back.restore(json.loads(json.dumps(days.state())))
    for hour in range(24):
        at_s = 9 * DAY_S + hour * HOUR_S
        days.put(at_s, 3.0, suspect=False)
        back.put(at_s, 3.0, suspect=False)
        assert back.day(at_s + DAY_S) == days.day(at_s + DAY_S)
    with pytest.raises(ValueError, match="24 bins a day, not 48"):
        Days(HOUR_S / 2).restore(days.state())
