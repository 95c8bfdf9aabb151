"""What is normal for a node: a slow low quantile of some of its readings.

Some values say little by themselves: a node across the sea has a long round
trip and nothing is wrong, a file server refaults all day. What counts is how
far a reading is above the node's own normal.

Each is a streaming quantile (the "frugal" estimator of Ma, Muthukrishnan and
Sandler 2013) in the logarithm of the value: per second the estimate steps up
by a fixed small factor while the reading is above it, and down by a larger one
while it is below, so that it settles where the share `quantile` of the time is
below. Its speed has a bound whatever is read: an hour as bad as you like moves
it by 6 % at most, and a day doubles it twice. It falls faster, so a node that
started in a bad hour mends its idea of normal once that is over.

Pure and vectorised: nodes × BASELINES. Nothing is stored; after a restart a
baseline is unknown (NaN) until it has been learnt for WARM_UP_S again, and
health goes by the fleet-wide curves meanwhile.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .readings import COLUMN

Floats = npt.NDArray[np.float64]

WARM_UP_S = 600.0
# Longer silences count as this: what was not seen teaches nothing.
MOST_STEP_S = 60.0
RISE_PER_S = math.log(2) / (12 * 3600)
# Before it is trusted it finds its place this much faster.
HASTE = 60.0


class Baseline(NamedTuple):
    """A reading of which the normal is learnt."""

    signal: str
    quantile: float  # of the time is below it
    floor: float  # added before the logarithm; differences below it are noise


BASELINES = (
    # The path's own length: what a round trip takes with little in its way.
    Baseline("link.rtt_us", 0.1, 100.0),
    # Caches that turn over in normal work.
    Baseline("memory.refaults_s", 0.25, 10.0),
)
_COLUMNS = [COLUMN[b.signal] for b in BASELINES]
_FLOORS = np.array([b.floor for b in BASELINES])
_FALLS = np.array([RISE_PER_S * (1 - b.quantile) / b.quantile for b in BASELINES])


class Learnt(NamedTuple):
    """Of each node and baseline."""

    level: Floats  # the estimate; NaN before a first reading
    seen_s: Floats  # for how long it has been learnt


def nothing(nodes: int) -> Learnt:
    """Return the baselines of nodes of which nothing was seen."""
    shape = nodes, len(BASELINES)
    return Learnt(np.full(shape, np.nan), np.zeros(shape))


def learn(before: Learnt, readings: Floats, elapsed_s: Floats) -> Learnt:
    """Return the baselines after one reading more of each node.

    `readings` are nodes × READINGS, `elapsed_s` the time that each stands for.
    What was not read leaves its baseline as it was.
    """
    values = np.asarray(readings[:, _COLUMNS], np.float64)
    read = ~np.isnan(values)
    step_s = np.where(read, np.clip(elapsed_s, 0.0, MOST_STEP_S)[:, None], 0.0)
    haste = np.where(before.seen_s < WARM_UP_S, HASTE, 1.0)
    level = np.where(np.isnan(before.level), values, before.level)
    target, place = np.log(values + _FLOORS), np.log(level + _FLOORS)
    moved = np.where(
        target > place,
        np.minimum(target, place + RISE_PER_S * haste * step_s),
        np.maximum(target, place - _FALLS * haste * step_s),
    )
    after = np.where(read, np.maximum(np.exp(moved) - _FLOORS, 0.0), before.level)
    return Learnt(after, before.seen_s + step_s)


def known(learnt: Learnt) -> Floats:
    """Return nodes × BASELINES; NaN where it has not been learnt for long enough."""
    return np.where(learnt.seen_s >= WARM_UP_S, learnt.level, np.nan)
