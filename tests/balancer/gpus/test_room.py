import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.gpus import Ask, Room, fits, stranding, take
from trimtab.balancer.gpus.room import tightest

ROOM = Room(8000, 1024, (200, 500, 1000, 1000), "big")


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (Ask(8000, 1024), True),  # a task without GPU
        (Ask(8001, 0), False),
        (Ask(0, 1025), False),
        (Ask(0, 0, 1, 1000), True),
        (Ask(0, 0, 2, 1000), True),
        (Ask(0, 0, 3, 1000), False),
        (Ask(0, 0, 3, 500), True),
        (Ask(0, 0, 5, 1), False),  # more devices than there are
        (Ask(0, 0, 1, 1001), False),
        (Ask(0, 0, 1, 1, ("small", "big")), True),
        (Ask(0, 0, 1, 1, ("small",)), False),
    ],
)
def test_a_task_fits_where_all_it_asks_is_free(ask: Ask, expected: bool) -> None:
    assert fits(ROOM, ask) is expected


def test_a_node_without_gpus_takes_tasks_without_gpu_only() -> None:
    bare = Room(4000, 0, ())
    assert fits(bare, Ask(4000))
    assert not fits(bare, Ask(0, 0, 1, 1))


def test_a_mig_instance_is_a_device_of_its_own() -> None:
    node = Room(8000, 0, (9984, 9984, 20096), "1g.10gb", 9984)
    assert fits(node, Ask(0, 0, 2, 9984, ("1g.10gb",)))
    assert not fits(node, Ask(0, 0, 1, 9984, ("2g.20gb",)))


rooms = st.builds(
    lambda cpu, free: Room(cpu, 4096, tuple(sorted(free))),
    st.integers(0, 9000),
    st.lists(st.integers(0, 1000), max_size=8),
)
asks = st.builds(
    Ask, st.integers(0, 9000), st.just(0), st.integers(0, 8), st.integers(0, 1000)
)


@given(rooms, asks)
def test_taking_leaves_what_was_there_less_what_was_asked(room: Room, ask: Ask) -> None:
    if not fits(room, ask):
        return
    left = take(room, ask, tightest(room, ask))
    asked = ask.devices * ask.each
    assert sum(left.free) == sum(room.free) - asked
    assert min(left.free, default=0) >= 0
    assert list(left.free) == sorted(left.free)
    assert left.cpu_milli == room.cpu_milli - ask.cpu_milli >= 0


def test_the_tightest_devices_that_have_enough_are_named() -> None:
    assert tightest(ROOM, Ask(0, 0, 2, 300)) == (500, 1000)
    assert tightest(ROOM, Ask(0, 0, 1, 200)) == (200,)
    assert tightest(ROOM, Ask(100)) == ()


def test_a_node_is_never_overdrawn() -> None:
    with pytest.raises(ValueError, match="a task that fits"):
        take(ROOM, Ask(9000), ())
    with pytest.raises(ValueError, match="a task that fits"):
        take(ROOM, Ask(0, 0, 1, 300), (200,))
    with pytest.raises(ValueError, match="not in list"):
        take(ROOM, Ask(0, 0, 1, 300), (301,))  # no device has that free


@pytest.mark.parametrize(
    ("free", "whole", "expected"),
    [
        ([9, 19, 4], 79, 1 - 19 / 32),
        ([79] * 8, 79, 0.0),  # empty, and nothing is stranded
        ([40] * 8, 79, 1 - 40 / 79),
        ([0, 0], 79, None),
        ([], 79, None),
    ],
)
def test_stranding_is_what_one_large_task_cannot_use(
    free: list[int], whole: int, expected: float | None
) -> None:
    assert stranding(free, whole) == (
        None if expected is None else pytest.approx(expected)
    )
