import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.gpu.memory import SLACK_BYTES, from_v1, from_v2
from trimtab.agent.gpu.readings import Memory

MIB = 2**20
SENTINEL = 2**64 - 1


def test_v2_sums_either_way_give_the_same_memory():
    expected = Memory(81559 * MIB, 70000 * MIB, 11000 * MIB, 559 * MIB)
    excludes = from_v2(81559 * MIB, 559 * MIB, 70000 * MIB, 11000 * MIB)
    includes = from_v2(81559 * MIB, 559 * MIB, 70000 * MIB, 11559 * MIB)
    assert excludes == includes == expected


@pytest.mark.parametrize("miss", [-2, -1, 0, 1, 2])
def test_a_sum_may_miss_by_what_real_dumps_do(miss):
    assert from_v2(1000 * MIB, 100 * MIB, 600 * MIB, (300 + miss) * MIB) is not None


@pytest.mark.parametrize(
    ("total", "reserved", "free", "used"),
    [
        (1000 * MIB, 100 * MIB, 600 * MIB, 350 * MIB),  # neither sum
        (0, 0, 0, 0),
        (1000 * MIB, SENTINEL, 600 * MIB, 300 * MIB),
        (1000 * MIB, 100 * MIB, 2000 * MIB, 300 * MIB),  # more free than there is
    ],
)
def test_v2_that_does_not_add_up_is_no_reading(total, reserved, free, used):
    assert from_v2(total, reserved, free, used) is None


def test_v1_does_not_know_what_is_reserved():
    assert from_v1(1000, 600, 400) == Memory(1000, 600, 400, None)
    assert from_v1(1000, 600, SENTINEL) is None
    assert from_v1(1000 * MIB, 600 * MIB, 700 * MIB) is None


sizes = st.integers(0, 2**38)


@given(sizes, sizes, sizes)
def test_what_is_believed_adds_up(reserved, free, used):
    total = reserved + free + used
    found = from_v2(total, reserved, free, used)
    if total == 0:
        assert found is None
    else:
        assert found == Memory(total, free, used, reserved)


@given(sizes, sizes, sizes, sizes)
def test_nothing_impossible_is_believed(total, reserved, free, used):
    found = from_v2(total, reserved, free, used)
    if found is not None:
        parts = found.free + found.used + (found.reserved or 0)
        assert abs(parts - found.total) <= SLACK_BYTES
