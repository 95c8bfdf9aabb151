import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.service import Service

xs = st.floats(0.1, 10)


def test_a_node_unheard_of_is_as_slow_as_expected() -> None:
    assert Service().slowness(1.25, 0.0) == 1.25


def test_a_node_that_gets_slow_is_seen_after_a_few_answers() -> None:
    node = Service()
    for i in range(100):
        node.note(1.0, i / 10)
    assert node.slowness(1.0, 9.9) == pytest.approx(1.0)
    for i in range(10):
        node.note(4.0, 10 + i / 10)
    assert node.slowness(1.0, 10.9) > 2.0


def test_b32_a_node_that_nobody_uses_returns_to_what_is_expected() -> None:
    node = Service()
    for i in range(100):
        node.note(4.0, i / 100)
    assert node.slowness(1.0, 1.0) > 3.5
    # The slow window forgets only as new outcomes come; the fast one by itself.
    assert node.slowness(1.0, 60.0) < node.slowness(1.0, 1.0)
    node.note(1.0, 300.0)
    assert node.slowness(1.0, 300.0) == pytest.approx(1.0, rel=0.01)


@given(st.lists(st.tuples(xs, st.floats(0, 5)), max_size=50), xs)
def test_slowness_is_never_beyond_what_was_heard_and_expected(
    outcomes: list[tuple[float, float]], expected: float
) -> None:
    node, now = Service(), 0.0
    for slowness, elapsed in outcomes:
        now += elapsed
        node.note(slowness, now)
    heard = [slowness for slowness, _ in outcomes]
    found = node.slowness(expected, now)
    assert min([*heard, expected]) * 0.999 <= found <= max([*heard, expected]) * 1.001


def test_an_outcome_that_comes_late_counts_as_of_the_newest() -> None:
    early, late = Service(), Service()
    early.note(1.0, 5.0)
    early.note(2.0, 5.0)
    late.note(1.0, 5.0)
    late.note(2.0, 3.0)
    assert late.slowness(1.0, 5.0) == early.slowness(1.0, 5.0)
