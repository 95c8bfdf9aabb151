from collections import Counter
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer import Settings
from trimtab.balancer.leases import Load
from trimtab.balancer.pick import candidates, cost_ms, draw, others, ranked


def test_a_node_is_drawn_in_proportion_to_its_weight() -> None:
    weights = [1.0, 2.0, 0.02, 5.0]
    cumulative = list(accumulate(weights))
    rng = Random(7)
    trials = 100_000
    drawn = Counter(draw(cumulative, rng) for _ in range(trials))
    for position, weight in enumerate(weights):
        share = weight / sum(weights)
        # Five standard deviations of a binomial share.
        margin = 5 * (share * (1 - share) / trials) ** 0.5
        assert drawn[position] / trials == pytest.approx(share, abs=margin)


@pytest.mark.parametrize(("size", "whole"), [(1, True), (24, True), (25, False)])
def test_small_fleets_are_compared_whole_and_large_ones_sampled(
    size: int, whole: bool
) -> None:
    cumulative = list(accumulate([1.0] * size))
    chosen = candidates(cumulative, Random(1), Settings())
    assert (list(chosen) == list(range(size))) == whole
    assert len(chosen) <= size if whole else len(chosen) <= 8


@given(st.integers(0, 1000), st.integers(3, 60))
def test_at_least_three_are_compared_where_one_has_nearly_all_weight(
    seed: int, size: int
) -> None:
    cumulative = list(accumulate([1e9] + [1.0] * (size - 1)))
    chosen = candidates(cumulative, Random(seed), Settings(full_scan=0))
    assert len(set(chosen)) == len(chosen) >= 3


@pytest.mark.parametrize(
    ("slots", "room", "mean", "expected"),
    [
        (4, 1.0, 0.0, 0.0),
        (4, 0.25, 0.0, 3.0),  # busy with what is not ours
        (4, 0.25, 3.0, 0.0),  # our own work explains the reading
        (4, 0.25, 2.0, 1.0),
        (4, 1.0, 3.0, 0.0),  # work that waits and uses nothing
    ],
)
def test_others_are_what_our_own_work_leaves_unexplained(
    slots: int, room: float, mean: float, expected: float
) -> None:
    assert others(slots, room, Load(0, mean)) == expected


@pytest.mark.parametrize(
    ("rtt_ms", "service_ms", "speed", "slots", "busy", "expected"),
    [
        (10, 50, 1, 1, 0, 10 + 50 * 2.5),
        (10, 50, 2, 1, 0, 10 + 25 * 2.5),
        (0, 50, 1, 4, 1, 50 * (1 + 1.5 / 8)),
        (0, 50, 1, 4, 7, 50 * (1 + 1.5 * 8)),
    ],
)
def test_cost_is_path_and_service_and_a_cubic_queue(
    rtt_ms: float,
    service_ms: float,
    speed: float,
    slots: int,
    busy: float,
    expected: float,
) -> None:
    assert cost_ms(rtt_ms, service_ms, speed, slots, busy) == pytest.approx(expected)


@given(st.floats(0, 100), st.floats(0, 100), st.integers(1, 64))
def test_more_work_never_costs_less(one: float, other: float, slots: int) -> None:
    low, high = sorted((one, other))
    assert cost_ms(1, 50, 1, slots, low) <= cost_ms(1, 50, 1, slots, high)


def test_the_least_cost_is_first_and_equals_take_turns_by_chance() -> None:
    rng = Random(3)
    first = Counter(ranked([2.0, 1.0, 1.0, 3.0, 1.0], rng)[0] for _ in range(3000))
    assert set(first) == {1, 2, 4}
    assert min(first.values()) > 850  # of 1000 expected, s.d. 26
    assert ranked([3.0, 1.0, 2.0], rng) == [1, 2, 0]
