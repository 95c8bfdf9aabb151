import pytest

from trimtab.balancer import State
from trimtab.balancer.panic import remaining

GOOD, FULL, STALE = State.HEALTHY, State.SATURATED, State.STALE


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([(GOOD, 4), (FULL, 4)], 0.5),
        ([(GOOD, 1), (FULL, 9)], 0.1),  # capacity counts, not nodes
        ([(GOOD, 3), (STALE, 1)], 0.75),
        ([(State.JOINING, 1), (State.UNKNOWN, 1), (State.STRAINED, 1)], 1.0),
        ([(FULL, 1)], 0.0),
        ([], 1.0),
    ],
)
def test_remaining_is_the_usable_share_of_capacity(
    nodes: list[tuple[State, float]], expected: float
) -> None:
    assert remaining(nodes) == expected
