"""Readings to headroom: how much of its speed work still has on a node.

Each signal has a curve (curve.py) from where it begins to cost to where it
leaves nothing. A dimension's headroom is the least of its signals', the score
the least of the dimensions', over those that were read. What was not read
takes no part; it lowers the confidence, never the score. The curves and their
sources are in docs/health.md; bench/health_truth.py holds them against what
real work suffers on a stressed host.

Vectorised: a batch is an array of frames × READINGS, NaN for no reading.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .baselines import BASELINES
from .curve import Curve, Floats
from .curve import headroom as rooms_left
from .readings import COLUMN

DIMENSIONS = ("cpu", "memory", "network", "gpu")

# Of the path of one link too, see link_headroom.py.
LINK_CURVES = (
    # Distance is no fault, but it is time; only until the node's own is learnt.
    Curve("link.typical_us", 1_000, 100_000, 2_000_000),
    Curve("link.typical_over_us", 1_000, 20_000, 1_000_000),
    # Slow round trips over the quickest.
    Curve("path.variation_us", 50_000, 1_000_000, 8_000_000),
    Curve("path.loss", 0.005, 0.05, 0.30),
)
CURVES: dict[str, tuple[Curve, ...]] = {
    "cpu": (
        # Full, but with nobody waiting, leaves two thirds.
        Curve("cpu.busy", 0.3, 1.6, 4.0),
        # Beside one competitor a CPU, nearly half the speed.
        Curve("cpu.run_queue", 0.0, 0.8, 12.0),
        # Says that somebody waits, not how many: the run queue does.
        Curve("cpu.stall", 0.0, 0.6, 1.3),
        # But not in a watched group, which has none, nor under a quota, of which
        # it knows nothing: there the last hundredths tell bad from worse.
        Curve("cpu.stall_alone", 0.05, 0.85, 1.0),
        Curve("cpu.steal", 0.0, 0.4, 0.9),
        # A quota stops the work although the host has CPUs to spare.
        Curve("cpu.throttled", 0.0, 1.5, 10.0),
        Curve("cpu.throttled_periods", 0.0, 2.0, 10.0),
        Curve("cpu.irq_stall", 0.0, 0.3, 0.9),
    ),
    "memory": (
        Curve("memory.stall_some", 0.0, 0.4, 1.05),
        # Nobody works while all wait.
        Curve("memory.stall_full", 0.0, 0.45, 1.0),
        # Falls only near the end: memory in use is memory well used.
        Curve("memory.available", 0.10, 0.03, 0.0),
        # The deeper a cache thrashes the less of it shows as a stall.
        Curve("memory.turnover_s", 500, 10_000, 1_500_000),
        Curve("memory.turnover_over_s", 500, 10_000, 1_500_000),
        Curve("memory.swap_in_bytes_s", 1e6, 5e7, 1e9),
        Curve("memory.oom_kills", 0, 0.5, 1),
        # What is not in memory is fetched from the disk, and waited for. One
        # task that only copies files waits all the time and harms nobody.
        Curve("io.stall_some", 0.0, 0.9, 3.0),
    ),
    "network": (
        *LINK_CURVES,
        Curve("link.retransmits", 0, 3, 30),
        Curve("nic.utilisation", 0.70, 0.90, 1.0),
    ),
    "gpu": (),
}

# Signals that no frame has: each is computed of readings, of which this must be
# there. What is `over` is judged over the node's own normal of it once that is
# learnt, and until then by itself.
DERIVED = {
    "cpu.stall_alone": "cpu.stall",
    "link.typical_us": "link.rtt_us",
    "link.typical_over_us": "link.rtt_us",
    "memory.turnover_s": "memory.refaults_s",
    "memory.turnover_over_s": "memory.refaults_s",
}
_ALL = tuple(curve for curves in CURVES.values() for curve in curves)
_PLACE = {curve.signal: place for place, curve in enumerate(_ALL)}
_COLUMNS = [COLUMN[DERIVED.get(c.signal, c.signal)] for c in _ALL]
_READ = sorted(set(_COLUMNS))
_SPANS = [
    slice(_PLACE[curves[0].signal], _PLACE[curves[-1].signal] + 1)
    if curves
    else slice(0)
    for curves in CURVES.values()
]
_ROUND_TRIPS = (
    "link.rtt_us",
    "link.rtt_min_us",
    "link.rtt_p95_us",
    "link.jitter_us",
)
_BASELINE = {baseline.signal: place for place, baseline in enumerate(BASELINES)}
# Each curves × 1, to go with curves × frames.
_BEGINS, _HALF, _ENDS = np.array([curve[1:] for curve in _ALL]).T[:, :, None]


class Health(NamedTuple):
    """For each frame of a batch; NaN (or −1) where nothing was read."""

    headroom: Floats  # frames × DIMENSIONS, 0..1
    score: Floats  # the least of them
    limiting: npt.NDArray[np.int8]  # index of the dimension that sets it
    confidence: Floats  # share of the signals with a curve that were read, 0..1


def assess(batch: Floats, normal: Floats | None = None) -> Health:
    """Return the health of each row of a batch.

    `normal` is frames × BASELINES, what is normal for each frame's node; NaN,
    or None for all, where that is not known.
    """
    rooms = rooms_left(_signals(batch, normal), _BEGINS, _HALF, _ENDS)
    headroom = np.full((len(batch), len(DIMENSIONS)), np.nan)
    for index, span in enumerate(_SPANS):
        if span.stop:
            # fmin takes the number where the other side is NaN.
            headroom[:, index] = np.fmin.reduce(rooms[span])
    score = np.fmin.reduce(headroom, axis=1)
    known = ~np.isnan(score)
    limiting = np.full(len(batch), -1, dtype=np.int8)
    limiting[known] = np.argmin(
        np.where(np.isnan(headroom[known]), np.inf, headroom[known]), axis=1
    )
    read = np.mean(~np.isnan(batch.T[_READ]), axis=0)
    return Health(headroom, score, limiting, read)


def _signals(batch: Floats, normal: Floats | None) -> Floats:
    """Return curves × frames: what each curve is of."""
    signals = np.asarray(batch.T[_COLUMNS], np.float64)
    columns = batch.T
    trip_us = typical_us(*(columns[COLUMN[name]] for name in _ROUND_TRIPS))
    refaults_s = columns[COLUMN["memory.refaults_s"]]
    available = columns[COLUMN["memory.available"]]
    usual_us = usual_s = np.full(len(batch), np.nan)
    if normal is not None:
        usual_us = normal[:, _BASELINE["link.rtt_us"]]
        usual_s = normal[:, _BASELINE["memory.refaults_s"]]
    unknown_us, unknown_s = np.isnan(usual_us), np.isnan(usual_s)
    turned_s = turnover_s(refaults_s, available)
    queued = ~np.isnan(columns[COLUMN["cpu.run_queue"]])
    held_back = columns[COLUMN["cpu.throttled"]] > 0
    signals[_PLACE["cpu.stall"], ~queued] = np.nan
    signals[_PLACE["cpu.stall_alone"], queued & ~held_back] = np.nan
    signals[_PLACE["link.typical_us"]] = np.where(unknown_us, trip_us, np.nan)
    signals[_PLACE["link.typical_over_us"]] = trip_us - usual_us
    signals[_PLACE["memory.turnover_s"]] = np.where(unknown_s, turned_s, np.nan)
    signals[_PLACE["memory.turnover_over_s"]] = turnover_s(
        refaults_s - usual_s, available
    )
    return signals


def turnover_s(refaults_s: Floats, available: Floats) -> Floats:
    """Return how hard a cache is turned over: refaults/s by the share that is left.

    Refaults alone stop rising once every read misses, and fall as the work
    that makes them slows; what is left to cache in goes on falling.
    """
    left = np.where(np.isnan(available), 1.0, np.maximum(available, 0.01))
    return np.asarray(refaults_s / left)


def typical_us(rtt: Floats, least: Floats, p95: Floats, jitter: Floats) -> Floats:
    """Return about the mean round trip, of what is told of many; NaN without any.

    The least, half the mean step between two (of exponential delays that is
    half their mean, the same again of what they add there and back), and a
    little of the slowest, which jitter forgets first. Agents that leave round
    trips to the kernel have its smoothed one in place of the least.
    """
    extra = np.nan_to_num(jitter) / 2 + np.nan_to_num(p95 - least) / 20
    return np.where(np.isnan(least), rtt, least) + extra
