"""Samples to minutes: count, sum, least and greatest of a few series.

What is kept here is the difference since the last commit. The store merges
it into the minute's row, so a sample that arrives days late lands in its own
minute, and nothing has to be held until a minute is "over".
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .health import DIMENSIONS, Health
from .readings import COLUMN

Floats = npt.NDArray[np.float64]

# Appended to, never reordered: a stored row holds as many as it was made with.
SIGNAL_SERIES = (
    "cpu.stall",
    "cpu.run_queue",
    "cpu.busy",
    "memory.available",
    "memory.stall_some",
    "link.rtt_us",
    "path.loss",
)
SERIES = ("score", *DIMENSIONS, *SIGNAL_SERIES)
_SIGNAL_COLUMNS = [COLUMN[name] for name in SIGNAL_SERIES]

# Node-minutes that wait while the store fails; about 1 KiB each in memory.
MOST_WAITING = 200_000

COUNT, SUM, LEAST, GREATEST = range(4)


class Minute(NamedTuple):
    """Key of a rollup: the node's row, and Unix time // 60."""

    row: int
    minute: int


class Sums(NamedTuple):
    """What a minute holds: samples, and SERIES × (count, sum, least, greatest)."""

    samples: int
    series: Floats


def merge(a: Sums, b: Sums) -> Sums:
    """Return both together; series that one side lacks are the other's."""
    size = max(len(a.series), len(b.series))
    x, y = _widened(a.series, size), _widened(b.series, size)
    series = np.empty_like(x)
    series[:, COUNT] = x[:, COUNT] + y[:, COUNT]
    series[:, SUM] = x[:, SUM] + y[:, SUM]
    series[:, LEAST] = np.minimum(x[:, LEAST], y[:, LEAST])
    series[:, GREATEST] = np.maximum(x[:, GREATEST], y[:, GREATEST])
    return Sums(a.samples + b.samples, series)


def _widened(series: Floats, size: int) -> Floats:
    if len(series) == size:
        return series
    return np.vstack([series, _empty(size - len(series))])


def _empty(size: int) -> Floats:
    return np.tile([0.0, 0.0, np.inf, -np.inf], (size, 1))


class Rollups:
    """The uncommitted part of every minute."""

    def __init__(self) -> None:
        self._sums: dict[Minute, Sums] = {}
        self.lost_samples = 0

    def add(
        self,
        rows: npt.NDArray[np.int64],
        minutes: npt.NDArray[np.int64],
        values: Floats,
        health: Health,
    ) -> None:
        """Add a batch of scored frames, each to its node's minute."""
        series = np.column_stack(
            [health.score, health.headroom, values[:, _SIGNAL_COLUMNS]]
        )
        order = np.lexsort((minutes, rows))
        keys = np.stack([rows[order], minutes[order]], axis=1)
        starts = np.flatnonzero(np.r_[True, np.any(keys[1:] != keys[:-1], axis=1)])
        for start, end in zip(starts, np.r_[starts[1:], len(keys)], strict=True):
            part = series[order[start:end]]
            row, minute = keys[start]
            self._merge(Minute(int(row), int(minute)), _sums(part))

    def _merge(self, key: Minute, sums: Sums) -> None:
        held = self._sums.get(key)
        self._sums[key] = sums if held is None else merge(held, sums)

    def drain(self) -> dict[Minute, Sums]:
        """Return what is uncommitted, and hold nothing."""
        sums, self._sums = self._sums, {}
        return sums

    def put_back(self, sums: dict[Minute, Sums]) -> None:
        """Take back what could not be committed; past the bound the oldest go.

        Those samples are lost to history, and counted.
        """
        for key, value in sums.items():
            self._merge(key, value)
        excess = len(self._sums) - MOST_WAITING
        if excess > 0:
            oldest = sorted(self._sums, key=lambda key: key.minute)[:excess]
            self.lost_samples += sum(self._sums.pop(key).samples for key in oldest)


def _sums(part: Floats) -> Sums:
    known = ~np.isnan(part)
    return Sums(
        samples=len(part),
        series=np.column_stack(
            [
                known.sum(axis=0),
                np.where(known, part, 0.0).sum(axis=0),
                np.where(known, part, np.inf).min(axis=0),
                np.where(known, part, -np.inf).max(axis=0),
            ]
        ),
    )
