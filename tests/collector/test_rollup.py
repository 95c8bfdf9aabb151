"""Samples to minutes: whatever the order and the batches, the same sums."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab.collector.health import assess
from trimtab.collector.readings import row
from trimtab.collector.rollup import (
    COUNT,
    GREATEST,
    LEAST,
    SERIES,
    SUM,
    Minute,
    Rollups,
    Sums,
    merge,
)
from trimtab.wire import Cpu, Frame

sample = st.tuples(
    st.integers(0, 2),  # row
    st.integers(0, 3),  # minute
    st.one_of(st.none(), st.floats(0, 1)),  # stall
)


def feed(rollups, samples):
    if samples:
        values = np.array([row(Frame(1, 1, cpu=Cpu(stall=s))) for _, _, s in samples])
        rollups.add(
            np.array([r for r, _, _ in samples]),
            np.array([m for _, m, _ in samples]),
            values,
            assess(values),
        )


@given(st.lists(sample, max_size=40), st.integers(0, 40))
def test_sums_do_not_depend_on_how_samples_were_batched(samples, cut):
    whole, parts = Rollups(), Rollups()
    feed(whole, samples)
    feed(parts, samples[:cut])
    feed(parts, samples[cut:])
    a, b = whole.drain(), parts.drain()
    assert a.keys() == b.keys()
    stall = SERIES.index("cpu.stall")
    for key, sums in a.items():
        assert sums.samples == b[key].samples
        np.testing.assert_allclose(sums.series, b[key].series)
        mine = [s for r, m, s in samples if (r, m) == key]
        known = [s for s in mine if s is not None]
        assert sums.samples == len(mine)
        assert sums.series[stall, COUNT] == len(known)
        if known:
            np.testing.assert_allclose(sums.series[stall, SUM], sum(known))
            assert sums.series[stall, LEAST] == min(known)
            assert sums.series[stall, GREATEST] == max(known)


def test_what_could_not_be_committed_is_taken_back_beside_what_came_since():
    rollups = Rollups()
    feed(rollups, [(0, 7, 0.5)])
    failed = rollups.drain()
    feed(rollups, [(0, 7, 0.1), (1, 7, None)])
    rollups.put_back(failed)
    held = rollups.drain()
    assert {key: sums.samples for key, sums in held.items()} == {
        Minute(0, 7): 2,
        Minute(1, 7): 1,
    }
    assert rollups.drain() == {}


def test_a_row_stored_with_fewer_series_still_merges():
    old = Sums(2, np.array([[2.0, 1.0, 0.25, 0.75]]))
    new = Sums(1, np.array([[1.0, 0.5, 0.5, 0.5], [1.0, 3.0, 3.0, 3.0]]))
    for merged in (merge(old, new), merge(new, old)):
        assert merged.samples == 3
        assert merged.series.tolist() == [[3, 1.5, 0.25, 0.75], [1, 3, 3, 3]]


def test_what_waits_for_a_failing_store_is_bounded_and_the_loss_counted(monkeypatch):
    monkeypatch.setattr("trimtab.collector.rollup.MOST_WAITING", 3)
    rollups = Rollups()
    feed(rollups, [(0, minute, 0.5) for minute in range(5)])
    rollups.put_back(rollups.drain())
    assert sorted(key.minute for key in rollups.drain()) == [2, 3, 4]
    assert rollups.lost_samples == 2
