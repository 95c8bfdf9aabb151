"""The plan and the forecast at work, in the simulation of bench/prewarm.py."""

from bench.prewarm import POLICIES, judged
from bench.prewarming.cache import simulate
from bench.prewarming.load import drawn


def test_foresight_calms_a_load_whose_bursts_repeat() -> None:
    load = drawn(11, 24 * 60.0)
    rows = {
        name: [simulate(load, POLICIES[name](load))]
        for name in ("reactive, last", "forecast")
    }
    verdict = judged(rows)
    assert verdict is not None
    assert verdict["met"], verdict


def test_a_simulated_load_is_the_same_for_the_same_seed() -> None:
    first, again, other = (drawn(seed, 120.0) for seed in (1, 1, 2))
    assert first == again
    assert first.tasks != other.tasks
    outcome = simulate(first, POLICIES["myopic"](first))
    assert outcome == simulate(again, POLICIES["myopic"](again))
    assert outcome.mean_s > 0.2
