"""A node's state: what its readings and its silence say of it.

Silence is judged by arrival, on the collector's monotonic clock. Health
states have hysteresis (the way back lies higher than the way down) and a
minimum hold, so that a node on a noisy link does not flap. The operator's
intent (`Admin`) is apart from all this: a drained node can be lost.

Vectorised over the fleet; docs/architecture.md shows the states.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]
Flags = npt.NDArray[np.bool_]


class State(IntEnum):
    """What is known of a node now."""

    UNKNOWN = 0  # registered, but not heard since the collector started
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


class Heard(NamedTuple):
    """What states are judged by; one element a node."""

    state: Codes
    held_s: Floats  # time in that state
    silent_s: Floats  # since its last live frame; before any, since it is known
    stale_after_s: Floats
    heard: Flags  # a live frame came since the collector started
    frames: npt.NDArray[np.int64]  # live frames since it joined
    asleep: Flags  # said so, and not heard since
    score: Floats  # NaN: nothing was read


def stale_after_s(interval_s: float, silence_s: float | None) -> float:
    """Return how long a node may be silent before it is stale."""
    return max(STALE_INTERVALS * interval_s, STALE_SILENCES * (silence_s or 0.0))


def next_states(heard: Heard, lost_after_s: float) -> Codes:
    """Return the state that each node is in now."""
    state = heard.state
    by_score = _by_score(heard)
    joins = (state == State.JOINING) | (state == State.LOST)
    fresh = np.where(
        joins & (heard.frames < JOINING_FRAMES), np.int8(State.JOINING), by_score
    )
    lost = heard.silent_s > np.maximum(lost_after_s, heard.stale_after_s)
    silent = heard.silent_s > heard.stale_after_s
    recalled = ~heard.heard & (state == State.UNKNOWN)
    lost |= ~heard.heard & (state == State.LOST)
    return np.select(
        [heard.asleep, lost, recalled, silent, ~heard.heard],
        [
            np.int8(State.SLEEPING),
            np.int8(State.LOST),
            np.int8(State.UNKNOWN),
            np.int8(State.STALE),
            np.int8(State.JOINING),
        ],
        fresh,
    ).astype(np.int8)


def _by_score(heard: Heard) -> Codes:
    state, score = heard.state, heard.score
    strained_below = np.where(
        (state == State.STRAINED) | (state == State.SATURATED),
        HEALTHY_ABOVE,
        STRAINED_BELOW,
    )
    saturated_below = np.where(
        state == State.SATURATED, STRAINED_ABOVE, SATURATED_BELOW
    )
    wanted = np.select(
        [np.isnan(score), score < saturated_below, score < strained_below],
        [
            np.int8(State.UNKNOWN),
            np.int8(State.SATURATED),
            np.int8(State.STRAINED),
        ],
        np.int8(State.HEALTHY),
    )
    rated = (state >= State.HEALTHY) & (state <= State.SATURATED)
    held = rated & (heard.held_s < HOLD_S) & ~np.isnan(score)
    return np.where(held, state, wanted).astype(np.int8)
