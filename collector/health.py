"""Readings to headroom: how far a node is from where work slows sharply.

Each signal has a curve h(x; a, b) = clip((b − x) / (b − a), 0, 1): 1 up to a,
0 from b on. A dimension's headroom is the least of its signals', the score
the least of the dimensions', over those that were read. What was not read
takes no part; it lowers the confidence, never the score. The curves and
their sources are in docs/health.md.

Vectorised: a batch is an array of frames × READINGS, NaN for no reading.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .readings import COLUMN

Floats = npt.NDArray[np.float64]

DIMENSIONS = ("cpu", "memory", "network", "gpu")


class Curve(NamedTuple):
    """Where a signal begins to cost, and where it leaves nothing."""

    signal: str
    begins: float
    ends: float


CURVES: dict[str, tuple[Curve, ...]] = {
    "cpu": (
        # What is used is not left; a full CPU without a queue leaves a little.
        Curve("cpu.busy", 0.05, 1.25),
        # At 1 every CPU has a task, and one more halves somebody's speed.
        Curve("cpu.run_queue", 0.5, 2.5),
        Curve("cpu.stall", 0.05, 1.0),
        Curve("cpu.steal", 0.02, 0.5),
        # A quota stops the work although the host has CPUs to spare.
        Curve("cpu.throttled", 0.02, 0.5),
        Curve("cpu.throttled_periods", 0.05, 0.8),
        Curve("cpu.irq_stall", 0.02, 0.3),
    ),
    "memory": (
        Curve("memory.stall_some", 0.01, 0.4),
        # Nobody works while all wait: half the share of `some` weighs as much.
        Curve("memory.stall_full", 0.005, 0.2),
        # Falls only near the end: memory in use is memory well used.
        Curve("memory.available", 0.20, 0.02),
    ),
    "network": (
        Curve("path.variation_us", 20_000, 200_000),
        Curve("path.loss", 0.005, 0.10),
        Curve("nic.utilisation", 0.70, 1.0),
    ),
    "gpu": (),
}
SIGNALS_READ = sum(len(curves) for curves in CURVES.values())


class Health(NamedTuple):
    """For each frame of a batch; NaN (or −1) where nothing was read."""

    headroom: Floats  # frames × DIMENSIONS, 0..1
    score: Floats  # the least of them
    limiting: npt.NDArray[np.int8]  # index of the dimension that sets it
    confidence: Floats  # share of the curves' signals that were read, 0..1


def assess(batch: Floats) -> Health:
    """Return the health of each row of a batch."""
    frames = len(batch)
    headroom = np.full((frames, len(DIMENSIONS)), np.nan)
    read = np.zeros(frames)
    for index, dimension in enumerate(DIMENSIONS):
        for curve in CURVES[dimension]:
            values = batch[:, COLUMN[curve.signal]]
            share = (curve.ends - values) / (curve.ends - curve.begins)
            # fmin takes the number where the other side is NaN.
            headroom[:, index] = np.fmin(headroom[:, index], np.clip(share, 0, 1))
            read += ~np.isnan(values)
    score = np.fmin.reduce(headroom, axis=1)
    known = ~np.isnan(score)
    limiting = np.full(frames, -1, dtype=np.int8)
    limiting[known] = np.argmin(
        np.where(np.isnan(headroom[known]), np.inf, headroom[known]), axis=1
    )
    return Health(headroom, score, limiting, read / SIGNALS_READ)
