"""A signal's way to headroom."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.collector.curve import Curve


@pytest.mark.parametrize(
    ("curve", "value", "expected"),
    [
        (Curve("", 1, 2, 5), 0.0, 1.0),
        (Curve("", 1, 2, 5), 1.0, 1.0),
        (Curve("", 1, 2, 5), 2.0, 0.5),
        (Curve("", 1, 2, 5), 5.0, 0.0),
        (Curve("", 1, 2, 5), 9.0, 0.0),
        (Curve("", 0.2, 0.05, 0.0), 0.3, 1.0),  # less is worse
        (Curve("", 0.2, 0.05, 0.0), 0.05, 0.5),
        (Curve("", 0.2, 0.05, 0.0), 0.0, 0.0),
        (Curve("", 0, 0.5, 1), 0.3, 0.7),  # half way: a straight line
        # Beside q competitors, 1 / (1 + q), but for the far end.
        (Curve("", 0, 1, 1e9), 3.0, 0.25),
    ],
)
def test_a_curve_goes_through_its_three_points(curve, value, expected):
    assert curve.headroom(value) == pytest.approx(expected)


def test_no_reading_is_no_headroom():
    assert np.isnan(Curve("", 0, 1, 2).headroom(np.nan))


curves = st.builds(
    lambda begins, way, share, sign: Curve(
        "", begins, begins + sign * way * share, begins + sign * way
    ),
    st.floats(-1e3, 1e3),
    st.floats(1, 1e6),
    st.floats(0.01, 0.99),
    st.sampled_from([1, -1]),
)


@given(curves, st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_worse_is_less_all_the_way_to_the_end(curve, one, other):
    """No two values between begin and end are told as the same."""
    near, far = sorted([one, other])
    way = curve.ends - curve.begins
    better = curve.headroom(curve.begins + near * way)
    worse = curve.headroom(curve.begins + far * way)
    assert 0 <= worse <= better <= 1
    if far - near > 1e-6:
        assert worse < better
