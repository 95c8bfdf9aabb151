import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.balancer.damping import DOWN_PER_S, QUANTUM, UP_PER_S, Damper


def step(damper: Damper, want: float | None, now: float) -> int:
    return damper.emit({"n": want}, now)["n"]


def test_a_first_level_is_told_as_it_is_and_in_steps() -> None:
    assert step(Damper(), 0.72, 0.0) == 75
    assert step(Damper(), 1.0, 0.0) == 100
    assert step(Damper(), None, 0.0) == 100


@pytest.mark.parametrize("want", [0.91, 1.0, 0.95])
def test_less_than_ten_points_move_nothing(want: float) -> None:
    damper = Damper()
    step(damper, 1.0, 0.0)
    assert step(damper, want, 10.0) == 100


def test_levels_fall_by_20_points_a_second_and_rise_by_10() -> None:
    damper = Damper()
    step(damper, 1.0, 0.0)
    falling = [step(damper, 0.3, float(now)) for now in range(1, 6)]
    assert falling == [80, 60, 40, 30, 30]
    assert [step(damper, 1.0, now) for now in (6.0, 7.0)] == [40, 50]


def test_a_long_pause_saves_up_no_jump() -> None:
    damper = Damper()
    step(damper, 1.0, 0.0)
    assert step(damper, 0.3, 1000.0) == 80


def test_a_node_that_is_out_is_out_at_once_and_comes_back_slowly() -> None:
    damper = Damper()
    step(damper, 1.0, 0.0)
    assert step(damper, 0.0, 0.01) == 0
    assert step(damper, 1.0, 0.02) == 10
    assert step(damper, 1.0, 1.02) == 20


def test_b15_the_least_level_of_a_node_in_use_is_not_0() -> None:
    assert step(Damper(), 0.0001, 0.0) == QUANTUM


def test_a_silent_node_keeps_its_level() -> None:
    damper = Damper()
    step(damper, 0.6, 0.0)
    assert step(damper, None, 100.0) == 60


def test_levels_of_nodes_that_left_are_forgotten() -> None:
    damper = Damper()
    damper.emit({"n": 0.5, "m": 0.5}, 0.0)
    assert damper.emit({"m": 0.5}, 1.0) == {"m": 50}
    assert damper.emit({"n": 1.0, "m": 0.5}, 2.0)["n"] == 100


wants = st.none() | st.floats(0, 1)


@given(st.lists(st.tuples(wants, st.floats(0, 3)), max_size=40))
def test_levels_stay_within_bounds_and_rates(
    history: list[tuple[float | None, float]],
) -> None:
    damper, now = Damper(), 0.0
    last = step(damper, 1.0, now)
    for want, elapsed in history:
        now += elapsed
        level = step(damper, want, now)
        assert level in range(0, 101, QUANTUM)
        assert (level == 0) == (want == 0 or (want is None and last == 0))
        if last and level:
            assert last - level <= DOWN_PER_S
            assert level - last <= UP_PER_S
        last = level
