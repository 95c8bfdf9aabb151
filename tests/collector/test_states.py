"""The state machine, as a table and by properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.collector.states import (
    HOLD_S,
    JOINING_FRAMES,
    Heard,
    State,
    next_states,
    stale_after_s,
)

NO = float("nan")


def after(
    state, *, held=60.0, silent=0.5, heard=True, frames=9, asleep=False, score=0.9
):
    return State(
        int(
            next_states(
                Heard(
                    state=np.array([state], dtype=np.int8),
                    held_s=np.array([held]),
                    silent_s=np.array([silent]),
                    stale_after_s=np.array([3.0]),
                    heard=np.array([heard]),
                    frames=np.array([frames]),
                    asleep=np.array([asleep]),
                    score=np.array([score]),
                ),
                lost_after_s=30.0,
            )[0]
        )
    )


@pytest.mark.parametrize(
    ("before", "given_", "expected"),
    [
        (State.JOINING, {"frames": 1}, State.JOINING),
        (State.JOINING, {"frames": JOINING_FRAMES}, State.HEALTHY),
        (State.JOINING, {"frames": JOINING_FRAMES, "score": 0.05}, State.SATURATED),
        (State.JOINING, {"heard": False, "frames": 0}, State.JOINING),
        (State.JOINING, {"heard": False, "frames": 0, "silent": 4}, State.STALE),
        (State.HEALTHY, {"score": 0.41}, State.HEALTHY),
        (State.HEALTHY, {"score": 0.39}, State.STRAINED),
        (State.HEALTHY, {"score": 0.39, "held": 1.0}, State.HEALTHY),  # held
        (State.STRAINED, {"score": 0.54}, State.STRAINED),  # the way back is higher
        (State.STRAINED, {"score": 0.56}, State.HEALTHY),
        (State.STRAINED, {"score": 0.09}, State.SATURATED),
        (State.SATURATED, {"score": 0.24}, State.SATURATED),
        (State.SATURATED, {"score": 0.26}, State.STRAINED),
        (State.SATURATED, {"score": 0.9}, State.HEALTHY),
        (State.HEALTHY, {"score": NO}, State.UNKNOWN),  # frames with nothing in them
        (State.UNKNOWN, {"score": 0.9}, State.HEALTHY),
        (State.HEALTHY, {"silent": 3.1}, State.STALE),
        (
            State.HEALTHY,
            {"silent": 3.1, "held": 0.0},
            State.STALE,
        ),  # no hold on silence
        (State.STALE, {"silent": 0.1}, State.HEALTHY),
        (State.STALE, {"silent": 30.1}, State.LOST),
        (State.LOST, {"silent": 0.1, "frames": 1}, State.JOINING),
        (State.LOST, {"silent": 99.0}, State.LOST),
        (State.UNKNOWN, {"heard": False, "silent": 10}, State.UNKNOWN),  # restarted
        (State.UNKNOWN, {"heard": False, "silent": 31}, State.LOST),
        (State.HEALTHY, {"asleep": True, "silent": 99}, State.SLEEPING),
        (State.SLEEPING, {"silent": 0.1}, State.HEALTHY),
    ],
)
def test_transitions(before, given_, expected):
    assert after(before, **given_) is expected


@pytest.mark.parametrize(
    ("interval_s", "silence_s", "expected"),
    [(1.0, None, 3.0), (1.0, 60.0, 90.0), (10.0, 15.0, 30.0), (0.1, None, 0.3)],
)
def test_stale_is_judged_by_what_the_node_announced(interval_s, silence_s, expected):
    assert stale_after_s(interval_s, silence_s) == pytest.approx(expected)


states = st.sampled_from(list(State))


@given(
    states,
    st.floats(0, 100),
    st.floats(0, 100),
    st.booleans(),
    st.integers(0, 9),
    st.one_of(st.just(NO), st.floats(0, 1)),
)
def test_silence_alone_decides_stale_and_lost(
    before, held, silent, heard, frames, score
):
    new = after(
        before, held=held, silent=silent, heard=heard, frames=frames, score=score
    )
    if silent > 30:
        assert new is State.LOST
    elif heard:
        assert (new is State.STALE) == (silent > 3)
    assert new is not State.SLEEPING
    # Judged again under the same facts, a node stays: no oscillation.
    again = after(
        new, held=held, silent=silent, heard=heard, frames=frames, score=score
    )
    if new in (State.STALE, State.LOST):
        assert again is new


@given(st.lists(st.floats(0.41, 0.54), min_size=2, max_size=30))
def test_a_score_that_wavers_within_the_band_never_changes_the_state(scores):
    for start in (State.HEALTHY, State.STRAINED):
        state = start
        for score in scores:
            state = after(state, held=HOLD_S + 1, score=score)
        assert state is start


def test_nodes_are_judged_each_by_itself():
    n = 3
    new = next_states(
        Heard(
            state=np.full(n, State.HEALTHY, dtype=np.int8),
            held_s=np.full(n, 60.0),
            silent_s=np.array([0.1, 5.0, 50.0]),
            stale_after_s=np.full(n, 3.0),
            heard=np.ones(n, dtype=bool),
            frames=np.full(n, 9),
            asleep=np.zeros(n, dtype=bool),
            score=np.full(n, 0.9),
        ),
        30.0,
    )
    assert new.tolist() == [State.HEALTHY, State.STALE, State.LOST]
