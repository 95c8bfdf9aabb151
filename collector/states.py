"""A node's state: what its readings and its silence say of it.

The machine is the table RULES: the first rule whose condition holds, of
those for the state a node is in, says the next one. Silence is judged by
arrival, on the collector's monotonic clock. Health states have hysteresis
(the way back lies higher than the way down), a minimum hold, and flap
damping: the more often a node got worse lately, the longer it must hold
before it counts as better. The operator's intent (`Admin`) is apart from all
this: a drained node can be lost.

Vectorised over the fleet; docs/architecture.md shows the diagram.
"""

from enum import IntEnum, StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]
Flags = npt.NDArray[np.bool_]


class State(IntEnum):
    """What is known of a node now."""

    UNKNOWN = 0  # not heard since the collector started, or nothing to read
    JOINING = 1
    HEALTHY = 2
    STRAINED = 3
    SATURATED = 4
    STALE = 5
    LOST = 6
    SLEEPING = 7


class Admin(IntEnum):
    """What the operator wants of a node."""

    ACTIVE = 0
    DRAINING = 1
    DRAINED = 2
    TOMBSTONED = 3


# Scores: below the first a node enters the state, above the second it leaves.
STRAINED_BELOW, HEALTHY_ABOVE = 0.40, 0.55
SATURATED_BELOW, STRAINED_ABOVE = 0.10, 0.25
HOLD_S = 3.0  # least time between two health states
JOINING_FRAMES = 3  # heard this often before its score decides

STALE_INTERVALS = 3.0
STALE_SILENCES = 1.5

# Flap damping: what a node's changes for the worse weigh halves each FLAP_S;
# one blip is free, each more doubles the hold.
FLAP_S = 600.0
MOST_HOLD_S = 60.0


class When(StrEnum):
    """What can be true of a node; the text is how people read it."""

    ASLEEP = "it announced its sleep"
    GONE = "silent for longer than the grace"
    SILENT = "silent for too long"
    NOT_HEARD = "not heard since the collector started"
    FEW_FRAMES = "fewer than three frames"
    UNSTEADY = "back, but not for long enough"
    UNREAD = "nothing of it could be read"
    HELD = "changed too short a time ago"
    WORST = "score below the saturated knee"
    POOR = "score below the strained knee"
    ALWAYS = "score above the knees"


class Rule(NamedTuple):
    """Of a node in one of these states: if this holds, the next state."""

    when: When
    of: frozenset[State]
    then: State | None  # None: stays as it is


_ANY = frozenset(State)
_RATED = frozenset({State.HEALTHY, State.STRAINED, State.SATURATED})
_OUTSIDE = frozenset({State.JOINING, State.LOST})

RULES = (
    Rule(When.ASLEEP, _ANY, State.SLEEPING),
    Rule(When.GONE, _ANY, State.LOST),
    Rule(When.NOT_HEARD, frozenset({State.UNKNOWN, State.LOST}), None),
    Rule(When.SILENT, _ANY, State.STALE),
    Rule(When.NOT_HEARD, _ANY, State.JOINING),
    Rule(When.FEW_FRAMES, _OUTSIDE, State.JOINING),
    Rule(When.UNSTEADY, frozenset({State.STALE}), None),
    Rule(When.UNREAD, _ANY, State.UNKNOWN),
    Rule(When.HELD, _RATED, None),
    Rule(When.WORST, _ANY, State.SATURATED),
    Rule(When.POOR, _ANY, State.STRAINED),
    Rule(When.ALWAYS, _ANY, State.HEALTHY),
)

# The order in which states are worse; those not named are no change for it.
_BADNESS = np.zeros(len(State), dtype=np.int8)
for _place, _state in enumerate(
    (State.HEALTHY, State.STRAINED, State.SATURATED, State.STALE, State.LOST)
):
    _BADNESS[_state] = _place


class Heard(NamedTuple):
    """What states are judged by; one element a node."""

    state: Codes
    held_s: Floats  # time in that state
    silent_s: Floats  # since its last live frame; before any, since it is known
    stale_after_s: Floats
    steady_s: Floats  # since it was silent for too long last
    flaps: Floats  # changes for the worse lately, decayed
    heard: Flags  # a live frame came since the collector started
    frames: npt.NDArray[np.int64]  # live frames since it joined
    asleep: Flags  # said so, and not heard since
    score: Floats  # NaN: nothing was read


def stale_after_s(interval_s: float, silence_s: float | None) -> float:
    """Return how long a node may be silent before it is stale."""
    return max(STALE_INTERVALS * interval_s, STALE_SILENCES * (silence_s or 0.0))


def damped_hold_s(flaps: Floats) -> Floats:
    """Return how long a node must have held before it counts as better."""
    extra = np.exp2(np.clip(flaps - 1.0, 0.0, 8.0)) - 1.0
    return np.minimum(HOLD_S * extra, MOST_HOLD_S)


def decayed(flaps: Floats, elapsed_s: Floats) -> Floats:
    """Return what flaps of that long ago still weigh."""
    return flaps * np.exp2(-elapsed_s / FLAP_S)


def worse(before: Codes, after: Codes) -> Flags:
    """Return which of the changes are for the worse."""
    return _BADNESS[after] > _BADNESS[before]


class Verdict(NamedTuple):
    """The next state of each node, and the rule that said so."""

    state: Codes
    rule: npt.NDArray[np.int8]  # index into RULES


def next_states(heard: Heard, lost_after_s: float) -> Verdict:
    """Return the state that each node is in now, and why."""
    held = _conditions(heard, lost_after_s)
    rule = np.full(len(heard.state), -1, dtype=np.int8)
    state = heard.state.copy()
    for index, (when, of, then) in enumerate(RULES):
        mask = (rule < 0) & held[when]
        if of is not _ANY:
            mask &= _member(of)[heard.state]
        rule[mask] = index
        if then is not None:
            state[mask] = then
    return Verdict(state, rule)


def _conditions(heard: Heard, lost_after_s: float) -> dict[When, Flags]:
    state, score = heard.state, heard.score
    rated = _member(_RATED)[state]
    damped_s = damped_hold_s(heard.flaps)
    strained_below = np.where(
        (state == State.STRAINED) | (state == State.SATURATED),
        HEALTHY_ABOVE,
        STRAINED_BELOW,
    )
    saturated_below = np.where(
        state == State.SATURATED, STRAINED_ABOVE, SATURATED_BELOW
    )
    worst = score < saturated_below
    poor = score < strained_below
    better = np.where(state == State.SATURATED, ~worst, ~poor)
    hold_s = np.where(better, np.maximum(HOLD_S, damped_s), HOLD_S)
    return {
        When.ASLEEP: heard.asleep,
        When.GONE: heard.silent_s > np.maximum(lost_after_s, heard.stale_after_s),
        When.SILENT: heard.silent_s > heard.stale_after_s,
        When.NOT_HEARD: ~heard.heard,
        When.FEW_FRAMES: heard.frames < JOINING_FRAMES,
        When.UNSTEADY: heard.steady_s < damped_s,
        When.UNREAD: np.isnan(score),
        When.HELD: rated & (heard.held_s < hold_s),
        When.WORST: worst,
        When.POOR: poor,
        When.ALWAYS: np.ones(len(state), dtype=np.bool_),
    }


def _member(states: frozenset[State]) -> Flags:
    flags = np.zeros(len(State), dtype=np.bool_)
    flags[list(states)] = True
    return flags
