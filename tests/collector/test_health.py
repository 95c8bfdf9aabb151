"""Readings to headroom."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.collector.baselines import BASELINES
from trimtab.collector.health import CURVES, DERIVED, DIMENSIONS, assess, typical_us
from trimtab.collector.readings import COLUMN, WIDTH, row
from trimtab.wire import Cpu, Frame, Link, Memory, Method


def of(**readings: float) -> np.ndarray:
    batch = np.full((1, WIDTH), np.nan)
    for name, value in readings.items():
        batch[0, COLUMN[name]] = value
    return batch


@pytest.mark.parametrize(
    ("signal", "dimension"),
    [
        (curve.signal, dimension)
        for dimension, curves in CURVES.items()
        for curve in curves
        if curve.signal not in DERIVED
    ],
)
def test_each_signal_has_its_dimension_down_a_half_at_its_half(signal, dimension):
    (curve,) = (c for c in CURVES[dimension] if c.signal == signal)
    # A stall counts for little beside a run queue, and fully without one.
    queue = {"cpu.run_queue": 0.0} if signal == "cpu.stall" else {}
    health = assess(of(**queue | {signal: curve.half}))
    assert health.headroom[0, DIMENSIONS.index(dimension)] == pytest.approx(0.5)
    assert health.score[0] == pytest.approx(0.5)
    assert DIMENSIONS[health.limiting[0]] == dimension


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        # The CPU is full in both, and only the queue tells them apart.
        (
            {"cpu.busy": 1.0, "cpu.stall": 1.0, "cpu.run_queue": 3.0},
            {"cpu.busy": 1.0, "cpu.stall": 1.0, "cpu.run_queue": 6.0},
        ),
        # Thrash of the page cache, which counts as available.
        (
            {"memory.available": 0.05, "memory.refaults_s": 0.0},
            {"memory.available": 0.6, "memory.refaults_s": 60_000.0},
        ),
        # Deeper thrash: fewer refaults and stalls, as the work itself slows.
        (
            {"memory.available": 0.4, "memory.refaults_s": 60_000.0},
            {"memory.available": 0.1, "memory.refaults_s": 50_000.0},
        ),
        ({"io.stall_some": 0.7}, {"io.stall_some": 1.0}),
        # Stalls of a connection: TCP hides the loss.
        (
            {"link.rtt_us": 900.0, "link.jitter_us": 500.0},
            {"link.rtt_us": 900.0, "link.jitter_us": 40_000.0},
        ),
    ],
)
def test_the_score_still_tells_bad_from_worse(better, worse):
    assert assess(of(**better)).score[0] > assess(of(**worse)).score[0] > 0


def test_the_weakest_dimension_read_is_the_score_and_is_named():
    health = assess(of(**{"cpu.run_queue": 1.0, "memory.stall_some": 0.9}))
    assert health.score[0] == health.headroom[0, DIMENSIONS.index("memory")]
    assert DIMENSIONS[health.limiting[0]] == "memory"


def test_what_was_not_read_is_neither_good_nor_bad():
    health = assess(of(**{"cpu.stall": 0.0}))
    assert health.score[0] == 1.0
    assert np.isnan(health.headroom[0, DIMENSIONS.index("memory")])
    both = assess(of(**{"cpu.stall": 0.0, "cpu.busy": 0.0}))
    assert 0 < health.confidence[0] < both.confidence[0] < 1


def test_all_that_has_a_curve_was_read_is_full_confidence():
    assert assess(np.zeros((1, WIDTH))).confidence[0] == 1


def normal(**known: float) -> np.ndarray:
    row = np.full((1, len(BASELINES)), np.nan)
    for place, baseline in enumerate(BASELINES):
        row[0, place] = known.get(baseline.signal.split(".")[1], np.nan)
    return row


def test_a_far_node_is_no_worse_for_it_once_its_normal_is_known():
    far = of(**{"link.rtt_us": 200_000.0})
    assert assess(far).score[0] < 0.5
    assert assess(far, normal()).score[0] == assess(far).score[0]
    assert assess(far, normal(rtt_us=200_000.0)).score[0] == 1.0


def test_a_node_far_above_its_own_normal_is_worse_than_one_that_is_always_there():
    slow = of(**{"link.rtt_us": 60_000.0, "memory.refaults_s": 30_000.0})
    usual = assess(slow, normal(rtt_us=60_000.0, refaults_s=30_000.0))
    unusual = assess(slow, normal(rtt_us=1_000.0, refaults_s=0.0))
    assert usual.score[0] == 1.0
    assert unusual.headroom[0, DIMENSIONS.index("memory")] <= 0.5
    assert unusual.headroom[0, DIMENSIONS.index("network")] <= 0.5


def test_a_typical_round_trip_is_near_the_mean_of_many():
    rng = np.random.default_rng(1)
    trips = 2_000 + rng.exponential(10_000, 100_000) + rng.exponential(10_000, 100_000)
    jitter = np.abs(np.diff(trips)).mean()
    quantiles = np.quantile(trips, [0.0, 0.95])
    typical = typical_us(*np.array([trips[-1], *quantiles, jitter]))
    assert typical == pytest.approx(trips.mean(), rel=0.5)


def test_a_stall_says_more_where_no_run_queue_is_read():
    """The last hundredths tell a watched group's saturation."""
    almost = [assess(of(**{"cpu.stall": x})).score[0] for x in (0.97, 0.99, 1.0)]
    assert almost[0] > almost[1] > almost[2] == 0
    host = {"cpu.stall": 1.0, "cpu.run_queue": 0.9}
    assert 0.15 < assess(of(**host)).score[0] < 0.25
    # The host's run queue is short, and a quota stops its container.
    assert assess(of(**host | {"cpu.throttled": 0.9})).score[0] == 0


def test_nothing_read_is_unknown():
    health = assess(of())
    assert np.isnan(health.score[0])
    assert health.limiting[0] == -1
    assert health.confidence[0] == 0


shares = st.one_of(st.none(), st.floats(0, 1))


@given(
    st.lists(shares, min_size=4, max_size=4), st.lists(shares, min_size=3, max_size=3)
)
def test_scores_stay_within_bounds_and_batches_agree_with_single_frames(cpu, memory):
    frames = [
        Frame(1, 1, cpu=Cpu(*cpu), memory=Memory(*memory)),
        Frame(2, 2, cpu=Cpu(*cpu)),
    ]
    batch = assess(np.array([row(f) for f in frames]))
    for i, f in enumerate(frames):
        alone = assess(np.array([row(f)]))
        assert np.array_equal(alone.headroom[0], batch.headroom[i], equal_nan=True)
    known = batch.headroom[~np.isnan(batch.headroom)]
    assert ((known >= 0) & (known <= 1)).all()


@given(
    st.lists(shares, min_size=4, max_size=4),
    st.sampled_from([c for curves in CURVES.values() for c in curves]),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_more_of_what_is_bad_never_raises_the_score(cpu, curve, one, other):
    name = DERIVED.get(curve.signal, curve.signal)
    batch = np.array([row(Frame(1, 1, cpu=Cpu(*cpu)))] * 2)
    steps = sorted([one, other])
    batch[:, COLUMN[name]] = [
        curve.begins + s * (curve.ends - curve.begins) for s in steps
    ]
    score = assess(batch).score
    assert score[1] <= score[0]


def link(peer, *, p95=None, least=None, loss=None):
    return Link(peer, Method.ICMP_RAW, p95, least, p95, None, loss)


@pytest.mark.parametrize(
    ("links", "variation", "loss"),
    [
        ((), None, None),
        ((link(0, p95=300, least=200),), 100, None),
        (
            (link(0, p95=300, least=200), link(1, p95=900, least=200, loss=0.1)),
            700,
            0.1,
        ),
        # A target that never answered says nothing while another link answers,
        ((link(0, p95=300, least=200), link(1, loss=1.0)), 100, None),
        # but where none answers, that is what there is to say.
        ((link(1, loss=1.0), link(2, loss=0.9)), None, 1.0),
    ],
)
def test_the_path_is_its_worst_link_that_answers(links, variation, loss):
    values = row(Frame(1, 1, links=links))
    got = [values[COLUMN["path.variation_us"]], values[COLUMN["path.loss"]]]
    assert [None if math.isnan(v) else v for v in got] == [variation, loss]
