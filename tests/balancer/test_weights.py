from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.weights import (
    FLOOR,
    Headroom,
    faded,
    headroom,
    middle,
    weight,
)

shares = st.floats(0, 1)
slownesses = st.floats(0.1, 100)
ramps = st.floats(0.1, 1)


@pytest.mark.parametrize(
    ("rooms", "expected"),
    [
        ((0.9, 0.4, 0.8), Headroom(0.4, "memory")),
        ((0.9, None, None), Headroom(0.9, "cpu")),
        ((0.9, 0.8, 0.7), Headroom(0.7, "network")),
        ((None, None, None), None),
        ((0.0, 0.5, 0.5), Headroom(0.0, "cpu")),  # 0 is a reading
    ],
)
def test_headroom_is_the_least_of_those_read(
    rooms: tuple[float | None, float | None, float | None], expected: Headroom | None
) -> None:
    assert headroom(*rooms) == expected


@pytest.mark.parametrize(
    ("room", "age_s", "expected"),
    [
        (1.0, 0.0, 1.0),
        (1.0, 30.0, 0.5 + 0.5 * exp(-1)),
        (0.0, 30.0, 0.5 - 0.5 * exp(-1)),
        (1.0, 1e9, 0.5),
        (0.8, -5.0, 0.8),  # from a clock a little ahead
    ],
)
def test_b32_trust_fades_towards_half(
    room: float, age_s: float, expected: float
) -> None:
    assert faded(room, age_s) == pytest.approx(expected)


@given(shares, shares, st.floats(0, 1000), st.integers(1, 512), slownesses, ramps)
def test_less_headroom_never_weighs_more(
    one: float, other: float, age_s: float, slots: int, slowness: float, ramp: float
) -> None:
    low, high = (faded(room, age_s) for room in sorted((one, other)))
    assert weight(slots, slowness, low, ramp) <= weight(slots, slowness, high, ramp)


@given(shares, st.integers(1, 512), slownesses, ramps)
def test_weights_stay_within_bounds(
    room: float, slots: int, slowness: float, ramp: float
) -> None:
    full = slots / slowness
    found = weight(slots, slowness, room, ramp)
    assert 0 < FLOOR * 0.1 * full * 0.999 <= found <= full


@pytest.mark.parametrize(
    ("rooms", "expected"),
    [([0.2, None, 0.8, 0.6], 0.6), ([None], 0.5), ([], 0.5)],
)
def test_the_middle_of_a_fleet_is_of_what_was_read(
    rooms: list[float | None], expected: float
) -> None:
    assert middle(rooms, 0.5) == expected
