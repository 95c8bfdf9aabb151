import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.work import Work, bounded, size


def test_a_label_is_believed_until_something_is_heard() -> None:
    assert Work().expected_ms(size(50.0), 50.0) == 50.0


def test_a_label_that_says_ten_times_too_much_is_seen_through() -> None:
    work = Work()
    for _ in range(2000):
        work.learn(500.0, served_ms=50.0)
    assert work.expected_ms(size(500.0), 500.0) == pytest.approx(50.0, rel=0.01)
    assert work.expected_ms(size(50.0), 50.0) == 50.0  # another label


def test_labels_of_about_one_size_share_what_is_learnt() -> None:
    assert size(33.0) == size(60.0) != size(70.0)


@given(st.lists(st.floats(0, 1e12), max_size=50))
def test_no_outcome_makes_work_nothing_or_endless(served: list[float]) -> None:
    work = Work()
    for each in served:
        work.learn(50.0, each)
    assert 0.04 <= work.expected_ms(size(50.0), 50.0) <= 50_001


@pytest.mark.parametrize(
    ("ratio", "expected"), [(0.0, 0.001), (1e9, 1000.0), (1.5, 1.5)]
)
def test_a_ratio_is_believed_up_to_a_thousand_times(
    ratio: float, expected: float
) -> None:
    assert bounded(ratio) == expected
