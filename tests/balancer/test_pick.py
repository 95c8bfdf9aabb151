from collections import Counter
from random import Random

from trimtab.balancer.pick import least


def test_the_least_cost_wins_and_equals_take_turns_by_chance() -> None:
    rng = Random(3)
    costs = [2.0, 1.0, 1.0, 3.0, 1.0]
    found = Counter(least(range(5), costs, rng) for _ in range(3000))
    assert set(found) == {1, 2, 4}
    assert min(found.values()) > 850  # of 1000 expected, s.d. 26
    assert least("abc", [3.0, 1.0, 2.0], rng) == "b"
