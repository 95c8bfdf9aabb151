"""Cycles of any length are found, and noise has none."""

import json
import math
import random
from itertools import accumulate

import pytest

from trimtab.balancer.forecast.cycle import KEPT, LONGEST, SHORTEST, Cycle, clearest


def fed(values: list[float]) -> Cycle:
    cycle = Cycle()
    for value in values:
        cycle.put(value)
    return cycle


def bursts(period: float, length: int, noise: float = 0.0) -> list[float]:
    rng = random.Random(1)
    return [
        (20.0 if step % period < 3 else 2.0) + rng.gauss(0.0, noise)
        for step in range(length)
    ]


@pytest.mark.parametrize("period", [7, 24, 30, 75, 144])
def test_bursts_that_repeat_have_their_period(period: int) -> None:
    cycle = fed(bursts(period, 1200, noise=0.5))
    assert cycle.period == pytest.approx(period, abs=0.2)


def test_a_period_of_no_whole_steps_is_sharpened_by_its_multiples() -> None:
    wave = [math.sin(2 * math.pi * step / 24.4) for step in range(1200)]
    assert fed(wave).period == pytest.approx(24.4, abs=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_noise_and_walks_and_ramps_have_no_cycle(seed: int) -> None:
    rng = random.Random(seed)
    noise = [rng.gauss(0.0, 1.0) for _ in range(1500)]
    assert fed(noise).period is None
    walk = list(accumulate(noise))
    assert fed(walk).period is None
    slow = list(accumulate(walk))
    assert fed(slow).period is None
    ramp = [float(step) for step in range(1500)]
    assert fed(ramp).period is None
    assert fed([5.0] * 1500).period is None


def test_what_comes_is_the_median_of_the_last_turns() -> None:
    values = bursts(30, 900)
    values[-30] = 999.0  # one odd reading, a turn ago
    cycle = fed(values)
    for steps in range(1, 61):
        expected = 20.0 if (899 + steps) % 30 < 3 else 2.0
        assert cycle.ahead(steps) == expected


def test_a_cycle_that_changes_is_found_anew() -> None:
    cycle = fed(bursts(30, 900))
    assert cycle.period == pytest.approx(30.0)
    changed = [cycle.put(value) for value in bursts(41, 900)]
    assert cycle.period == pytest.approx(41.0)
    assert 1 <= sum(changed) <= 8


def test_a_first_look_needs_only_three_turns() -> None:
    cycle = fed(bursts(12, 60))
    assert cycle.period == pytest.approx(12.0)


def test_nothing_is_said_before_a_cycle_is_found() -> None:
    assert Cycle().ahead(1) is None


@pytest.mark.parametrize("seed", range(20))
def test_no_table_of_differences_gives_a_lag_outside_it(seed: int) -> None:
    rng = random.Random(seed)
    table = [rng.random() ** 3 for _ in range(rng.randint(3, LONGEST - SHORTEST + 1))]
    table[: seed % 2 * 9] = sorted(table[: seed % 2 * 9], reverse=True)
    found = clearest(table, rng.choice([None, 2.0, 11.0, 400.0]))
    assert found is None or SHORTEST - 1 <= found <= LONGEST


def test_the_state_comes_back_from_json_and_goes_on_alike() -> None:
    cycle = fed(bursts(30, 700))
    back = Cycle()
    back.restore(json.loads(json.dumps(cycle.state())))
    for value in bursts(41, 700):
        assert back.put(value) == cycle.put(value)
        assert back.ahead(5) == cycle.ahead(5)
    assert len(json.dumps(cycle.state())) < 24 * KEPT
