from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.sampler import Sampler, table


def shares(weights: list[float]) -> list[float]:
    """The probability of each member, read off the table."""
    size = len(weights)
    keep, others = table(range(size), weights)
    found = [0.0] * size
    for place in range(size):
        found[place] += (keep[place] - place) / size
        found[others[place]] += (place + 1 - keep[place]) / size
    return found


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=50))
def test_the_table_gives_each_member_its_share(weights: list[float]) -> None:
    whole = sum(weights)
    assert shares(weights) == pytest.approx([w / whole for w in weights], abs=1e-9)


def test_members_without_any_weight_share_evenly() -> None:
    assert shares([0.0, 0.0]) == [0.5, 0.5]
    assert shares([0.0, 1.0, 1.0]) == pytest.approx([0.0, 0.5, 0.5])


@given(
    st.lists(st.floats(0.01, 100), min_size=2, max_size=20), st.data(), st.floats(1, 10)
)
def test_a_larger_weight_never_gets_a_smaller_share(
    weights: list[float], data: st.DataObject, factor: float
) -> None:
    place = data.draw(st.integers(0, len(weights) - 1))
    raised = [w * factor if i == place else w for i, w in enumerate(weights)]
    assert shares(raised)[place] >= shares(weights)[place] - 1e-9


def test_draws_follow_the_shares() -> None:
    weights = [1.0, 2.0, 0.02, 5.0]
    sampler = Sampler(range(4), lambda member, _: weights[member], now=0.0)
    trials = 100_000
    drawn = Counter(sampler.draw(trials, Random(7), now=0.0))
    for member, weight in enumerate(weights):
        share = weight / sum(weights)
        # Five standard deviations of a binomial share.
        margin = 5 * (share * (1 - share) / trials) ** 0.5
        assert drawn[member] / trials == pytest.approx(share, abs=margin)


def test_weights_are_renewed_as_time_passes_a_few_at_a_pick() -> None:
    asked: list[int] = []

    def weigh(member: int, _: float) -> float:
        asked.append(member)
        return 1.0

    sampler = Sampler(range(100), weigh, now=0.0)
    asked.clear()
    sampler.draw(8, Random(1), now=0.05)
    assert len(asked) == 16  # half are due, but no pick pays for so many
    for step in range(20):
        sampler.draw(8, Random(1), now=0.1 + step / 1000)
    assert set(asked) == set(range(100))


def test_a_member_that_lost_its_weight_is_drawn_no_more_after_a_sweep() -> None:
    weights = [1.0, 1.0]
    sampler = Sampler(range(2), lambda member, _: weights[member], now=0.0)
    weights[0] = 0.0
    sampler.draw(1, Random(1), now=1.0)
    assert set(sampler.draw(100, Random(1), now=1.0)) == {1}
