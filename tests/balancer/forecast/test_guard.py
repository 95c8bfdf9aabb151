"""What is beyond belief, and when it is believed after all."""

import pytest

from trimtab.balancer.forecast.guard import FAR, RUN, WARM, Guard


def warm(usual: float = 1.0, *, counts: bool = False) -> Guard:
    guard = Guard(counts=counts)
    for step in range(4 * WARM):
        guard.judge(10.0 + (usual if step % 2 else -usual), 10.0)
    return guard


def test_a_miss_many_times_the_usual_is_suspect_and_tamed_to_the_limit() -> None:
    guard = warm()
    limit = guard.limit(10.0)
    assert limit == pytest.approx(FAR)
    judged = guard.judge(1000.0, 10.0)
    assert judged.suspect
    assert judged.tamed == pytest.approx(10.0 + limit)
    assert warm().judge(-1000.0, 10.0).tamed == pytest.approx(10.0 - limit)
    assert not guard.judge(10.5, 10.0).suspect


def test_nothing_is_suspect_before_the_guard_is_warm() -> None:
    guard = Guard(counts=False)
    for _ in range(WARM - 1):
        guard.judge(10.0, 10.0)
        assert guard.limit(10.0) == float("inf") or guard.usual == 0.0
    assert not Guard(counts=False).judge(1e9, 10.0).suspect


def test_a_run_on_one_side_is_a_shift_and_carries_its_readings() -> None:
    guard = warm()
    for step in range(RUN - 1):
        assert not guard.judge(5000.0 + step, 10.0).shift
    judged = guard.judge(6000.0, 10.0)
    assert judged.shift == (*(5000.0 + step for step in range(RUN - 1)), 6000.0)
    assert not judged.suspect
    assert judged.tamed == 6000.0


def test_far_readings_that_change_sides_are_no_shift() -> None:
    guard = warm()
    for step in range(4 * RUN):
        side = 1 if step // (RUN - 1) % 2 else -1
        assert not guard.judge(10.0 + side * 1e6, 10.0).shift


def test_a_sound_reading_ends_a_run() -> None:
    guard = warm()
    for _ in range(RUN - 1):
        guard.judge(1e6, 10.0)
    guard.judge(10.0, 10.0)
    assert not guard.judge(1e6, 10.0).shift


def test_rare_events_are_no_surprise_among_counts() -> None:
    quiet = Guard(counts=True)
    for _ in range(100):
        quiet.judge(0.0, 0.0)
    assert not quiet.judge(2.0, 0.0).suspect
    assert quiet.judge(50.0, 0.0).suspect
