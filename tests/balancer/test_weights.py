from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.weights import (
    FLOOR,
    Headroom,
    capacity,
    faded,
    headroom,
    middle,
    weight,
)

shares = st.floats(0, 1)


@pytest.mark.parametrize(
    ("rooms", "asks_gpu", "expected"),
    [
        ((0.9, 0.4, 0.8, None), False, Headroom(0.4, "memory")),
        ((0.9, None, None, None), False, Headroom(0.9, "cpu")),
        ((0.9, 0.8, 0.7, 0.1), False, Headroom(0.7, "network")),  # no GPU wanted
        ((0.9, 0.8, 0.7, 0.1), True, Headroom(0.1, "gpu")),
        ((0.9, 0.8, 0.7, None), True, None),  # the one that matters is unread
        ((None, None, None, 0.5), False, None),
        ((0.0, 0.5, 0.5, None), False, Headroom(0.0, "cpu")),  # 0 is a reading
    ],
)
def test_headroom_is_the_least_that_the_task_needs(
    rooms: tuple[float | None, float | None, float | None, float | None],
    asks_gpu: bool,
    expected: Headroom | None,
) -> None:
    assert headroom(*rooms, asks_gpu=asks_gpu) == expected


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
def test_trust_fades_towards_half(room: float, age_s: float, expected: float) -> None:
    assert faded(room, age_s) == pytest.approx(expected)


@given(shares, shares, st.floats(0, 1000), st.integers(1, 512), st.floats(0.1, 10))
def test_less_headroom_never_weighs_more(
    one: float, other: float, age_s: float, slots: int, speed: float
) -> None:
    low, high = sorted((one, other))
    whole = capacity(slots, speed)
    assert weight(whole, faded(low, age_s)) <= weight(whole, faded(high, age_s))


@given(shares, st.integers(1, 512), st.floats(0.1, 10))
def test_a_weight_is_never_below_its_floor(
    room: float, slots: int, speed: float
) -> None:
    whole = capacity(slots, speed)
    assert weight(whole, room) >= FLOOR * whole > 0


@pytest.mark.parametrize(
    ("rooms", "expected"),
    [([0.2, None, 0.8, 0.6], 0.6), ([None], 0.5), ([], 0.5)],
)
def test_the_middle_of_a_pool_is_of_what_was_read(
    rooms: list[float | None], expected: float
) -> None:
    assert middle(rooms) == expected
