"""The state machine, as a table and by properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.collector.states import (
    FLAP_S,
    HOLD_S,
    JOINING_FRAMES,
    MOST_HOLD_S,
    RULES,
    Heard,
    State,
    When,
    damped_hold_s,
    decayed,
    next_states,
    stale_after_s,
    worse,
)

NO = float("nan")


def after(
    state,
    *,
    held=60.0,
    silent=0.5,
    steady=1e9,
    flaps=0.0,
    heard=True,
    frames=9,
    asleep=False,
    score=0.9,
):
    verdict = next_states(
        Heard(
            state=np.array([state], dtype=np.int8),
            held_s=np.array([held]),
            silent_s=np.array([silent]),
            stale_after_s=np.array([3.0]),
            steady_s=np.array([steady]),
            flaps=np.array([flaps]),
            heard=np.array([heard]),
            frames=np.array([frames]),
            asleep=np.array([asleep]),
            score=np.array([score]),
        ),
        lost_after_s=30.0,
    )
    return State(int(verdict.state[0]))


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
    new, _ = next_states(
        Heard(
            state=np.full(n, State.HEALTHY, dtype=np.int8),
            held_s=np.full(n, 60.0),
            silent_s=np.array([0.1, 5.0, 50.0]),
            stale_after_s=np.full(n, 3.0),
            steady_s=np.full(n, 60.0),
            flaps=np.zeros(n),
            heard=np.ones(n, dtype=bool),
            frames=np.full(n, 9),
            asleep=np.zeros(n, dtype=bool),
            score=np.full(n, 0.9),
        ),
        30.0,
    )
    assert new.tolist() == [State.HEALTHY, State.STALE, State.LOST]


def test_the_first_blip_is_free_and_each_further_one_doubles_the_hold():
    """A31: a node on a noisy link must not flap."""
    holds = damped_hold_s(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 99.0])).tolist()
    assert holds == [0, 0, 3, 9, 21, MOST_HOLD_S]
    assert after(State.STALE, flaps=1.0, steady=0.1) is State.HEALTHY
    assert after(State.STALE, flaps=3.0, steady=8.9) is State.STALE
    assert after(State.STALE, flaps=3.0, steady=9.1) is State.HEALTHY
    assert after(State.STRAINED, flaps=4.0, held=20.0) is State.STRAINED
    assert after(State.STRAINED, flaps=4.0, held=22.0) is State.HEALTHY


def test_getting_worse_is_never_damped():
    assert after(State.HEALTHY, flaps=9.0, held=3.1, score=0.3) is State.STRAINED
    assert after(State.STRAINED, flaps=9.0, held=3.1, score=0.01) is State.SATURATED
    assert after(State.HEALTHY, flaps=9.0, silent=3.1) is State.STALE


def test_flaps_are_forgotten_by_halves():
    assert decayed(np.array([4.0]), np.array([2 * FLAP_S])).tolist() == [1.0]


def test_worse_is_further_from_healthy():
    order = [State.HEALTHY, State.STRAINED, State.SATURATED, State.STALE, State.LOST]
    codes = np.array(order, dtype=np.int8)
    assert worse(codes[:-1], codes[1:]).all()
    assert not worse(codes[1:], codes[:-1]).any()
    assert not worse(codes[:1], np.array([State.SLEEPING], dtype=np.int8)).any()


# A node's whole life, a row a step: (seconds, event).
steps = st.lists(
    st.tuples(
        st.floats(0.1, 40.0),
        st.sampled_from(["frame", "nothing", "sleep"]),
        st.one_of(st.just(NO), st.floats(0, 1)),
    ),
    min_size=1,
    max_size=40,
)


@given(steps)
def test_whatever_a_node_lives_through_each_change_has_its_rule(life):
    now, arrived, since, silent_at = 0.0, 0.0, 0.0, -np.inf
    state, frames, heard, asleep, flaps = State.JOINING, 0, False, False, 0.0
    for seconds, what, score in life:
        now += seconds
        if what == "frame":
            arrived, heard, asleep, frames = now, True, False, frames + 1
        elif what == "sleep" and heard:
            asleep = True
        silent = now - arrived
        if silent > 3:
            silent_at = now
        codes, rules = next_states(
            Heard(
                *(np.array([v]) for v in (state, now - since, silent, 3.0)),
                *(np.array([v]) for v in (now - silent_at, flaps, heard, frames)),
                *(np.array([v]) for v in (asleep, score)),
            ),
            30.0,
        )
        rule, new = RULES[int(rules[0])], State(int(codes[0]))
        assert state in rule.of
        assert new is (state if rule.then is None else rule.then)
        if new is not state:
            if worse(np.array([state]), np.array([new])).any():
                flaps += 1
            since = now
            if new is State.LOST:
                frames = 0
        state = new
        if not asleep and silent > 30:
            assert state is State.LOST
        if asleep:
            assert state is State.SLEEPING
    # Whatever came before: enough good frames bring it back.
    for _ in range(200):
        now += 1.0
        verdict = next_states(
            Heard(
                *(np.array([v]) for v in (state, now - since, 0.5, 3.0)),
                *(np.array([v]) for v in (now - silent_at, flaps, True, 99)),
                *(np.array([v]) for v in (False, 0.9)),
            ),
            30.0,
        )
        new = State(int(verdict.state[0]))
        since, state = (now, new) if new is not state else (since, state)
    assert state is State.HEALTHY


def test_the_table_has_an_answer_for_every_state():
    assert RULES[-1].when is When.ALWAYS
    assert RULES[-1].of == frozenset(State)
    assert {rule.when for rule in RULES} == set(When)
