"""What is normal for a node."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.collector.baselines import (
    BASELINES,
    WARM_UP_S,
    known,
    learn,
    nothing,
)
from trimtab.collector.readings import COLUMN, WIDTH

RTT = next(i for i, b in enumerate(BASELINES) if b.signal == "link.rtt_us")


def read(signal, *values):
    rows = np.full((len(values), WIDTH), np.nan)
    rows[:, COLUMN[signal]] = [np.nan if v is None else v for v in values]
    return rows


def over(learnt, values, step_s=10.0):
    """Learn a node's round trips, one each `step_s`."""
    for value in values:
        readings = read("link.rtt_us", value)
        learnt = learn(learnt, readings, np.array([step_s]))
    return learnt


def rtt(learnt):
    return known(learnt)[0, RTT]


def settled(value=10_000.0):
    return over(nothing(1), [value] * 70)


def test_a_new_node_has_no_normal_until_it_has_been_watched_for_a_while():
    learnt = over(nothing(1), [10_000.0] * int(WARM_UP_S / 10 - 1))
    assert np.isnan(rtt(learnt))
    assert rtt(over(learnt, [10_000.0])) == pytest.approx(10_000)


def test_a_bad_hour_is_not_learnt_as_normal():
    learnt = over(settled(), [2_000_000.0] * 360)
    assert rtt(learnt) < 1.07 * 10_000


def test_a_lasting_change_is_learnt_in_days():
    learnt = over(settled(), [40_000.0] * 3000, step_s=60.0)
    assert rtt(learnt) == pytest.approx(40_000, rel=0.05)


def test_a_node_that_started_in_a_bad_hour_mends_its_normal_sooner():
    """The way down is nine times as fast as the way up."""
    learnt = over(settled(80_000.0), [10_000.0] * 300, step_s=60.0)
    assert rtt(learnt) == pytest.approx(10_000, rel=0.05)


def test_spikes_leave_the_normal_where_most_readings_are():
    rng = np.random.default_rng(1)
    values = rng.normal(10_000, 300, 20_000)
    values[rng.random(20_000) < 0.05] *= 20
    learnt = over(nothing(1), values.tolist())
    assert np.quantile(values, 0.03) < rtt(learnt) < np.quantile(values, 0.2)


def test_what_was_not_read_teaches_nothing():
    learnt = settled()
    after = learn(learnt, read("link.rtt_us", None), np.array([10.0]))
    assert np.array_equal(after.level, learnt.level, equal_nan=True)
    assert np.array_equal(after.seen_s, learnt.seen_s)


def test_a_long_silence_counts_as_a_short_one():
    minute = learn(settled(), read("link.rtt_us", 9e6), np.array([60.0]))
    day = learn(settled(), read("link.rtt_us", 9e6), np.array([86_400.0]))
    assert rtt(day) == rtt(minute)


def test_a_cache_that_never_turns_over_has_a_normal_of_nothing():
    learnt = nothing(1)
    for _ in range(70):
        learnt = learn(learnt, read("memory.refaults_s", 0.0), np.array([10.0]))
    assert known(learnt)[0, 1 - RTT] == pytest.approx(0, abs=1e-9)


rates = st.one_of(st.none(), st.floats(0, 1e9))


@given(st.lists(rates, min_size=1, max_size=30), st.floats(0, 1e6))
def test_a_normal_lies_among_what_was_read(values, step_s):
    learnt = over(nothing(1), values, step_s)
    seen = [v for v in values if v is not None]
    level = learnt.level[0, RTT]
    if not seen:
        assert np.isnan(level)
    else:
        # The logarithm costs the last digits.
        assert min(seen) * (1 - 1e-9) - 1e-3 <= level <= max(seen) * (1 + 1e-9) + 1e-3


@given(st.lists(st.tuples(rates, rates), min_size=1, max_size=10))
def test_nodes_learn_side_by_side_as_they_would_alone(values):
    both, alone = nothing(2), nothing(1)
    for first, second in values:
        step = np.array([10.0, 10.0])
        both = learn(both, read("memory.refaults_s", first, second), step)
        alone = learn(alone, read("memory.refaults_s", second), step[:1])
    assert np.array_equal(both.level[1:], alone.level, equal_nan=True)
    assert np.array_equal(both.seen_s[1:], alone.seen_s)
