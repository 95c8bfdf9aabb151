from hypothesis import given
from hypothesis import strategies as st

from trimtab.agent.gpu.rising import WINDOW_S, Growth, Rising


def test_growth_is_over_the_last_minute_alone():
    counter = Rising()
    assert counter.add(0, 1000) is None
    assert counter.add(30, 1008) == Growth(8, 30)
    assert counter.add(90, 1008) == Growth(0, 60)


def test_a_reset_starts_anew():
    counter = Rising()
    counter.add(0, 1000)
    assert counter.add(1, 3) is None
    assert counter.add(2, 5) == Growth(2, 1)


def test_a_missing_value_is_skipped():
    counter = Rising()
    assert counter.add(0, None) is None
    counter.add(1, 5)
    assert counter.add(2, None) is None
    assert counter.add(3, 7) == Growth(2, 2)


def test_a_rate_needs_time():
    assert Growth(5, 0).per_s == 0
    assert Growth(6000, 60).per_s == 100


@given(st.lists(st.integers(0, 50), min_size=2, max_size=100))
def test_growth_is_the_sum_of_the_steps_and_memory_stays_bounded(steps):
    counter = Rising()
    total = 0
    for second, step in enumerate(steps):
        total += step
        growth = counter.add(second, total)
    assert growth == Growth(
        sum(steps[max(1, len(steps) - int(WINDOW_S)) :]),
        min(len(steps) - 1, WINDOW_S),
    )
    assert len(counter._seen) <= WINDOW_S + 1
