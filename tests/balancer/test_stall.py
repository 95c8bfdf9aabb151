import pytest

from trimtab.balancer.stall import inflation


@pytest.mark.parametrize(
    ("answers", "expected"),
    [(0.0, 1.0), (2.0, 1.0), (3.5, 1.5), (5.0, 2.0), (302.0, 101.0)],
)
def test_a_node_is_doubted_the_more_answers_are_overdue(
    answers: float, expected: float
) -> None:
    assert inflation(answers) == pytest.approx(expected)
