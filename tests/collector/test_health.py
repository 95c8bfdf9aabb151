"""Readings to headroom."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.collector.health import CURVES, DIMENSIONS, assess
from trimtab.collector.readings import COLUMN, WIDTH, row
from trimtab.wire import Cpu, Frame, Link, Memory, Method


def of(**readings: float) -> np.ndarray:
    batch = np.full((1, WIDTH), np.nan)
    for name, value in readings.items():
        batch[0, COLUMN[name.replace("__", ".")]] = value
    return batch


@pytest.mark.parametrize(
    ("readings", "dimension", "expected"),
    [
        ({"cpu__stall": 0.0}, "cpu", 1.0),
        ({"cpu__stall": 1.0}, "cpu", 0.0),
        ({"cpu__stall": 0.525}, "cpu", 0.5),
        ({"cpu__run_queue": 1.5, "cpu__stall": 0.0}, "cpu", 0.5),
        ({"cpu__run_queue": 40.0}, "cpu", 0.0),  # far past the knee
        ({"cpu__busy": 1.0}, "cpu", 0.25 / 1.2),  # full, but nobody waits
        ({"memory__available": 0.9}, "memory", 1.0),
        ({"memory__available": 0.11}, "memory", 0.5),
        ({"memory__available": 0.0}, "memory", 0.0),
        ({"memory__stall_full": 0.2}, "memory", 0.0),
        ({"path__loss": 0.0525}, "network", 0.5),
        ({"path__variation_us": 110_000}, "network", 0.5),
    ],
)
def test_each_curve_runs_from_its_begin_to_its_end(readings, dimension, expected):
    health = assess(of(**readings))
    assert health.headroom[0, DIMENSIONS.index(dimension)] == pytest.approx(expected)
    assert health.score[0] == pytest.approx(expected)
    assert DIMENSIONS[health.limiting[0]] == dimension


def test_the_weakest_dimension_read_is_the_score_and_is_named():
    health = assess(of(cpu__stall=0.05, memory__available=0.11, path__loss=0.0))
    assert health.score[0] == pytest.approx(0.5)
    assert DIMENSIONS[health.limiting[0]] == "memory"


def test_what_was_not_read_is_neither_good_nor_bad():
    health = assess(of(cpu__stall=0.05))
    assert health.score[0] == 1.0
    assert np.isnan(health.headroom[0, DIMENSIONS.index("memory")])
    few, many = health.confidence[0], assess(of(cpu__stall=0, cpu__busy=0)).confidence
    assert 0 < few < many[0] < 1


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


@pytest.mark.parametrize("dimension", [d for d in DIMENSIONS if CURVES[d]])
def test_more_load_never_raises_headroom(dimension):
    for curve in CURVES[dimension]:
        low, high = sorted([curve.begins, curve.ends])
        steps = np.linspace(0.5 * low, 1.5 * high, 50)
        if curve.ends < curve.begins:
            steps = steps[::-1]
        batch = np.full((len(steps), WIDTH), np.nan)
        batch[:, COLUMN[curve.signal]] = steps
        column = assess(batch).headroom[:, DIMENSIONS.index(dimension)]
        assert (np.diff(column) <= 0).all(), curve


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
