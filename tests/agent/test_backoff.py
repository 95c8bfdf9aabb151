"""Full jitter: spread out, growing, bounded."""

import random

import pytest

from trimtab.agent.backoff import BASE_S, CAP_S, LEAST_S, delay_s


@pytest.mark.parametrize("failures", [1, 2, 3, 6, 7, 50, 10_000])
def test_delays_are_uniform_below_a_doubling_cap(failures):
    rng = random.Random(7)
    cap = min(CAP_S, BASE_S * 2 ** min(failures, 16))
    draws = [delay_s(failures, rng) for _ in range(4000)]
    assert all(LEAST_S <= d <= cap for d in draws)
    assert sum(draws) / len(draws) == pytest.approx(cap / 2, rel=0.08)
    tenth = sum(d < cap / 10 for d in draws) / len(draws)
    assert tenth == pytest.approx(0.1, abs=0.02) or cap / 10 <= LEAST_S
