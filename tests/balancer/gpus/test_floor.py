from random import Random

import pytest

from trimtab.balancer.gpus import (
    Ask,
    Choice,
    Fgd,
    Floor,
    Mix,
    Part,
    Placement,
    Room,
    fits,
    take,
)
from trimtab.balancer.gpus.room import tightest

MIX = Mix([Part(Ask(0, 0, 1, 500), 0.5), Part(Ask(0, 0, 2, 1000), 0.5)])


class Counting:
    """Costs what is free, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def choice(self, room: Room, ask: Ask) -> Choice:
        self.asked += 1
        return Choice(sum(room.free), tightest(room, ask))

    def left(self, room: Room, ask: Ask, chosen: tuple[int, ...]) -> Room:
        return take(room, ask, chosen)


def put(floor: Floor, name: str, *free: int, cpu_milli: int = 8000) -> None:
    floor.put(name, Room(cpu_milli, 0, tuple(sorted(free))), free)


def test_only_conditions_not_seen_before_are_computed() -> None:
    policy, ask = Counting(), Ask(0, 0, 1, 100)
    floor = Floor(policy)
    for n in range(1000):
        put(floor, f"n{n}", 1000, 1000)
    floor.place(ask)
    assert policy.asked == 1  # a thousand nodes, all alike
    for _ in range(50):
        floor.place(ask)
    assert policy.asked <= 51  # each placement makes at most one new condition


def test_the_cheapest_node_is_taken_and_the_first_of_equals() -> None:
    floor = Floor(Counting())
    put(floor, "large", 1000, 1000)
    put(floor, "second", 300, 500)
    put(floor, "third", 500, 300)
    placed = floor.place(Ask(0, 0, 1, 400))
    assert placed is not None
    assert (placed.node, placed.devices, placed.cost) == ("second", (1,), 800)
    assert floor.room("second").free == (100, 300)


def test_a_task_that_fits_nowhere_changes_nothing() -> None:
    floor = Floor(Fgd(MIX))
    put(floor, "a", 1000)
    before = floor.room("a")
    assert floor.place(Ask(0, 0, 2, 1000)) is None
    assert floor.choice("a", Ask(0, 0, 2, 1000)) is None
    assert floor.fitting(Ask(0, 0, 2, 1000)) == []
    assert floor.room("a") == before
    assert Floor(Fgd(MIX)).place(Ask()) is None


def test_a_task_of_several_devices_gets_different_ones() -> None:
    floor = Floor(Fgd(MIX))
    put(floor, "a", 1000, 0, 1000, 1000)
    placed = floor.place(Ask(0, 0, 3, 1000))
    assert placed is not None
    assert sorted(placed.devices) == [0, 2, 3]


def test_whoever_decided_already_can_take_the_place() -> None:
    floor, ask = Floor(Fgd(MIX)), Ask(0, 0, 1, 500)
    put(floor, "a", 500)
    put(floor, "b", 1000)
    choice = floor.choice("b", ask)
    assert choice is not None
    assert floor.seat("b", ask, choice).node == "b"
    assert floor.room("b").free == (500,)


def test_what_is_released_is_as_before() -> None:
    rng, floor = Random(3), Floor(Fgd(MIX))
    for n in range(20):
        put(floor, f"n{n}", *[1000] * rng.choice((1, 2, 4, 8)))
    before = {f"n{n}": floor.room(f"n{n}") for n in range(20)}
    held: list[Placement] = []
    for _ in range(400):
        if held and rng.random() < 0.4:
            floor.release(held.pop(rng.randrange(len(held))))
            continue
        each = rng.choice((100, 500, 1000))
        devices = rng.choice((1, 2)) if each == 1000 else 1
        placed = floor.place(Ask(rng.choice((0, 500)), 0, devices, each))
        if placed is not None:
            held.append(placed)
            assert all(min(room.free) >= 0 for room in floor.rooms())
    assert held
    for placed in held:
        floor.release(placed)
    assert {name: floor.room(name) for name in before} == before


def test_a_report_replaces_what_was_counted_and_a_node_gone_gets_nothing_back() -> None:
    floor, ask = Floor(Fgd(MIX)), Ask(0, 0, 1, 500)
    put(floor, "a", 1000)
    placed = floor.place(ask)
    assert placed is not None
    put(floor, "a", 200)
    assert floor.place(ask) is None
    floor.drop("a")
    assert len(floor) == 0
    floor.release(placed)
    assert list(floor.rooms()) == []
    with pytest.raises(KeyError):
        floor.room("a")


def test_free_that_does_not_match_the_room_is_refused() -> None:
    with pytest.raises(ValueError, match="free of a"):
        Floor(Fgd(MIX)).put("a", Room(0, 0, (1, 2)), [2, 2])


def test_another_mix_is_followed_at_once() -> None:
    scraps = Ask(0, 0, 1, 300)
    floor = Floor(Fgd(Mix([Part(Ask(0, 0, 1, 1000), 1.0)])))
    put(floor, "whole", 1000)
    put(floor, "half", 600)
    assert floor.choice("half", scraps) != floor.choice("whole", scraps)
    first = floor.place(scraps)
    assert first is not None
    assert first.node == "half"  # of no use to the mix, so it goes first
    floor.release(first)
    floor.follow(Fgd(Mix([Part(Ask(0, 0, 1, 600), 1.0)])))
    second = floor.place(scraps)
    assert second is not None
    assert second.node == "whole"  # 700 of it stay useful, of 600 nothing would


def test_many_kinds_of_task_do_not_pile_up() -> None:
    floor = Floor(Counting())
    put(floor, "a", 1000)
    for cpu_milli in range(2000):
        floor.choice("a", Ask(cpu_milli, 0, 1, 1))
    (condition,) = floor._conditions.values()
    assert len(condition.choices) <= 512
    assert fits(floor.room("a"), Ask(0, 0, 1, 1000))
