import pytest

from trimtab.balancer import Board
from trimtab.balancer.ejection import BASE_S, FAILURES, MOST_S, Standing, within_bound


def fail(standing: Standing, times: int, now: float, *, room: bool = True) -> bool:
    said = [standing.failed(now, room=room) for _ in range(times)]
    return any(said)


def test_five_failures_in_a_row_eject_for_five_seconds() -> None:
    node = Standing()
    assert not fail(node, FAILURES - 1, 1.0)
    assert node.until == 0.0
    assert fail(node, 1, 1.0)
    assert node.until == 1.0 + BASE_S


def test_a_success_between_ends_the_row() -> None:
    node = Standing()
    fail(node, FAILURES - 1, 0.0)
    node.succeeded(0.0)
    assert not fail(node, FAILURES - 1, 0.0)


def test_b13_a_node_that_came_back_is_ejected_by_five_failures_again() -> None:
    node = Standing()
    fail(node, FAILURES, 0.0)
    back = node.until
    fail(node, 3, back - 1)  # sent before it was ejected
    assert not fail(node, FAILURES - 1, back)
    assert fail(node, 1, back)


def test_each_time_out_is_twice_as_long_up_to_a_minute() -> None:
    node, lengths = Standing(), []
    for _ in range(6):
        now = node.until
        fail(node, FAILURES, now)
        lengths.append(node.until - now)
    assert lengths == [5, 10, 20, 40, MOST_S, MOST_S]


def test_a_quiet_minute_forgives() -> None:
    node = Standing()
    fail(node, FAILURES, 0.0)
    node.succeeded(node.until + 61)
    fail(node, FAILURES, 100.0)
    assert node.until == 100.0 + BASE_S


@pytest.mark.parametrize(
    ("after_s", "expected"), [(0.0, 0.1), (0.5, 0.1), (5.0, 0.5), (10.0, 1.0), (99, 1)]
)
def test_b14_a_node_comes_back_slowly_but_never_at_nothing(
    after_s: float, expected: float
) -> None:
    node = Standing()
    fail(node, FAILURES, 0.0)
    assert node.ramp(node.until + after_s) == pytest.approx(expected)
    assert Standing().ramp(0.0) == 1.0  # who was there from the start


@pytest.mark.parametrize(
    ("out", "more", "fits"), [(0.0, 4.0, True), (0.0, 4.1, False), (3.0, 1.5, False)]
)
def test_b12_the_bound_counts_the_node_as_out_already(
    out: float, more: float, fits: bool
) -> None:
    assert within_bound(out, more, 10.0) == fits


def board(*capacities: float) -> Board:
    made = Board()
    made.members(((f"{i}", size) for i, size in enumerate(capacities)), 0.0)
    return made


def broken(made: Board, ident: str, now: float = 0.0) -> bool:
    for _ in range(FAILURES):
        made.ended(ident, ok=False, slowness=None, now=now)
    return made.node(ident).standing.until > now


def test_b12_never_more_than_40_percent_of_the_capacity_is_ejected() -> None:
    made = board(3.0, 1.0, 2.0, 4.0)
    assert broken(made, "0")
    assert broken(made, "1")  # together exactly 4 of 10
    assert not broken(made, "2")
    assert made.refused_at == 0.0
    assert made.ejected_capacity(0.0) == 4.0


def test_what_an_ejection_took_is_free_again_at_its_end() -> None:
    made = board(4.0, 4.0, 2.0)
    assert broken(made, "0")
    assert not broken(made, "1")
    assert made.ejected_capacity(BASE_S) == 0.0
    assert broken(made, "1", now=BASE_S)


def test_one_large_node_is_not_ejected_if_it_is_most_of_the_fleet() -> None:
    assert not broken(board(9.0, 1.0), "0")


def test_b14_a_node_that_joins_later_begins_slowly() -> None:
    made = board(1.0, 1.0)
    made.members((("0", 1.0), ("1", 1.0), ("2", 1.0)), 50.0)
    assert made.node("2").standing.ramp(50.0) == pytest.approx(0.1)
    assert made.node("0").standing.ramp(50.0) == 1.0
