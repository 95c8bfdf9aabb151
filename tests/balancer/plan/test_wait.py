"""What replicas are needed, and what waiting they save."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.plan.wait import need, slots_over, waited_task_s


@pytest.mark.parametrize(
    ("rate", "service_s", "slots", "expected"),
    [
        (0.0, 1.0, 1, 0),
        (0.01, 1.0, 4, 1),  # anything at all needs one
        (2.8, 1.0, 4, 1),  # 2.8 / (0.7 * 4) = 1, exactly full
        (2.9, 1.0, 4, 2),
        (28.0, 0.5, 4, 5),
    ],
)
def test_need_is_work_over_seven_tenths_of_a_replicas_slots(
    rate: float, service_s: float, slots: int, expected: int
) -> None:
    assert need(rate, service_s, slots, 0.7) == expected


def test_without_slots_all_that_arrives_waits() -> None:
    # 1 task/s for 10 s, nothing served: the mean backlog is 5 tasks, for 10 s.
    assert waited_task_s([1.0] * 10, 1.0, 1.0, [0.0] * 10) == pytest.approx(50.0)


def test_what_is_over_capacity_waits_until_it_is_worked_off() -> None:
    # 3/s on 2 slots of 1 s each for 2 s, then silence: 2 tasks over, gone at 3 s.
    # In the first second chance makes more wait than the flow does: half of 3.
    slots = [2.0] * 4
    assert waited_task_s([3.0, 3.0, 0.0, 0.0], 1.0, 1.0, slots) == pytest.approx(
        1.5 + 1.5 + 1.0
    )


def test_chance_alone_makes_tasks_wait_as_for_one_server() -> None:
    # For one slot the approximation is exact, M/M/1: rho^2 / (1 - rho) tasks.
    waits = waited_task_s([0.5] * 10, 10.0, 1.0, [1.0] * 10)
    assert waits == pytest.approx(100 * 0.25 / 0.5)


@given(
    st.lists(st.floats(0.0, 100.0), max_size=12),
    st.floats(0.5, 60.0),
    st.floats(0.01, 30.0),
)
def test_more_slots_never_mean_more_waiting(
    rates: list[float], step_s: float, service_s: float
) -> None:
    waits = [
        waited_task_s(rates, step_s, service_s, [slots] * len(rates))
        for slots in range(40)
    ]
    for more, fewer in pairwise(reversed(waits)):
        assert more <= fewer * (1 + 1e-9)


def test_slots_that_come_later_count_from_then_on() -> None:
    assert slots_over(4, 10.0, 2.0, 4.0, 15.0) == [2.0, 4.0, 6.0, 6.0]
    assert slots_over(2, 10.0, 2.0, -2.0, 0.0) == [0.0, 0.0]
