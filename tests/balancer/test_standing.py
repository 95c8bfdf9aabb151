import pytest

from trimtab.balancer import Admin, State
from trimtab.balancer.standing import barred

A = Admin.ACTIVE


@pytest.mark.parametrize(
    ("admin", "state", "slots", "expected"),
    [
        (A, State.HEALTHY, 1, None),
        (A, State.STRAINED, 1, None),
        (A, State.SATURATED, 1, None),
        (A, State.JOINING, 1, None),
        (A, State.UNKNOWN, 1, None),
        (A, State.STALE, 1, None),  # the pool ranks it last
        (A, State.LOST, 1, "lost"),
        (A, State.SLEEPING, 1, "sleeping"),
        (A, State.HEALTHY, 0, "slotless"),
        (Admin.DRAINING, State.HEALTHY, 1, "draining"),
        (Admin.DRAINED, State.HEALTHY, 1, "drained"),
        (Admin.TOMBSTONED, State.HEALTHY, 1, "tombstoned"),
        (Admin.DRAINING, State.LOST, 1, "draining"),  # the operator's word first
    ],
)
def test_who_may_be_picked(
    admin: Admin, state: State, slots: int, expected: str | None
) -> None:
    assert barred(admin, state, slots) == expected
