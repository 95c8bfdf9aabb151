from collections import Counter
from random import Random

import pytest

from trimtab.balancer.gpus import Ask, Fgd, Mix, Part, Room, fits, growth, take
from trimtab.balancer.gpus.fgd import steps

HALVES = Mix([Part(Ask(0, 0, 1, 500), 0.5), Part(Ask(0, 0, 1, 1000), 0.5)])


def test_a_task_takes_the_device_whose_rest_stays_useful() -> None:
    # On the half-free one it leaves nothing; on a whole one, half of it.
    room = Room(0, 0, (500, 1000))
    choice = Fgd(HALVES).choice(room, Ask(0, 0, 1, 500))
    assert choice.chosen == (500,)
    assert growth(HALVES, room, Ask(0, 0, 1, 500)) == -250


def test_what_nobody_else_can_use_is_used_first() -> None:
    scraps, whole = Room(0, 0, (300,)), Room(0, 0, (1000,))
    ask, fgd = Ask(0, 0, 1, 300), Fgd(HALVES)
    assert growth(HALVES, scraps, ask) == -300
    assert growth(HALVES, whole, ask) == 350  # 700 left, of use to the half
    assert fgd.choice(scraps, ask).cost < fgd.choice(whole, ask).cost


def test_a_task_without_gpu_avoids_the_cpus_that_gpus_need() -> None:
    mix = Mix([Part(Ask(4000, 0, 1, 1000), 1.0)])
    ask, fgd = Ask(1000), Fgd(mix)
    spare, needed = Room(8000, 0, (1000,)), Room(4000, 0, (1000,))
    assert growth(mix, spare, ask) == 0
    assert growth(mix, needed, ask) == 1000
    assert fgd.choice(spare, ask).cost < fgd.choice(needed, ask).cost


def test_a_cost_is_the_same_in_mib_as_in_thousandths() -> None:
    def scaled(factor: int) -> float:
        parts = [(500, 0.5), (1000, 0.5)]
        mix = Mix(Part(Ask(0, 0, 1, each * factor), f) for each, f in parts)
        room = Room(0, 0, (300 * factor, 900 * factor), "", 1000 * factor)
        return Fgd(mix).choice(room, Ask(0, 0, 1, 200 * factor)).cost

    assert scaled(1) == scaled(81)


@pytest.mark.parametrize(
    ("devices", "expected"),
    [(0.0, 50), (0.01, 51), (0.03, 51), (0.05, 52), (-0.05, 49), (9.0, 100), (-9.0, 1)],
)
def test_growth_is_compared_in_steps(devices: float, expected: int) -> None:
    assert steps(devices) == expected


def test_kept_choices_are_those_that_would_be_made_anew() -> None:
    rng, kept = Random(1), Fgd(HALVES)
    seen: Counter[int] = Counter()
    for _ in range(300):
        free = tuple(sorted(rng.choice((0, 200, 500, 1000)) for _ in range(4)))
        room = Room(rng.choice((0, 1000)), 0, free)
        devices, each = rng.choice((0, 1, 1, 2)), rng.choice((200, 500, 1000))
        ask = Ask(rng.choice((0, 1000)), 0, devices, each)
        if fits(room, ask):
            seen[devices] += 1
            assert kept.choice(room, ask) == Fgd(HALVES).choice(room, ask)
            chosen = kept.choice(room, ask).chosen
            assert kept.left(room, ask, chosen) == take(room, ask, chosen)
    assert len(seen) == 3
