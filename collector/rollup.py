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

_FIRST_SLOTS = 64
_ROW_BITS = 24  # max_nodes is below
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
    """The uncommitted part of every minute: a slot each, in arrays."""

    def __init__(self) -> None:
        self._begin()
        self.lost_samples = 0

    def _begin(self) -> None:
        self._slots: dict[int, int] = {}  # by _packed
        self._samples = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self._series = _empties(_FIRST_SLOTS)  # slots × (count, …) × SERIES

    def add(
        self,
        rows: npt.NDArray[np.intp],
        minutes: npt.NDArray[np.int64],
        values: Floats,
        health: Health,
    ) -> None:
        """Add a batch of scored frames, each to its node's minute."""
        series = np.column_stack(
            [health.score, health.headroom, values[:, _SIGNAL_COLUMNS]]
        )
        keys = _packed(rows, minutes)
        order = np.argsort(keys, kind="stable")
        keys, series = keys[order], series[order]
        begins = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        samples = np.diff(begins, append=len(keys))
        self._merge(keys[begins], samples, _sums(series, begins))

    def _merge(
        self,
        keys: npt.NDArray[np.int64],
        samples: npt.NDArray[np.int64],
        series: Floats,
    ) -> None:
        """Add sums to their slots; a key may stand here once only."""
        slots = self._slots
        found = np.array([slots.setdefault(key, len(slots)) for key in keys.tolist()])
        lack = len(slots) - len(self._samples)
        if lack > 0:
            more = max(lack, len(self._samples))
            self._samples = np.r_[self._samples, np.zeros(more, dtype=np.int64)]
            self._series = np.concatenate([self._series, _empties(more)])
        self._samples[found] += samples
        held = self._series[found]
        held[:, :LEAST] += series[:, :LEAST]
        np.minimum(held[:, LEAST], series[:, LEAST], out=held[:, LEAST])
        np.maximum(held[:, GREATEST], series[:, GREATEST], out=held[:, GREATEST])
        self._series[found] = held

    def drain(self) -> dict[Minute, Sums]:
        """Return what is uncommitted, and hold nothing."""
        samples = self._samples[: len(self._slots)].tolist()
        sums = {
            _unpacked(key): Sums(count, series.T)
            for key, count, series in zip(
                self._slots, samples, self._series, strict=False
            )
        }
        self._begin()
        return sums

    def put_back(self, sums: dict[Minute, Sums]) -> None:
        """Take back what could not be committed; past the bound the oldest go.

        Those samples are lost to history, and counted.
        """
        self._put(sums)
        excess = len(self._slots) - MOST_WAITING
        if excess > 0:
            held = self.drain()
            oldest = sorted(held, key=lambda key: key.minute)[:excess]
            self.lost_samples += sum(held.pop(key).samples for key in oldest)
            self._put(held)

    def _put(self, sums: dict[Minute, Sums]) -> None:
        if sums:
            self._merge(
                _packed(*np.array(list(sums), dtype=np.int64).T),
                np.array([value.samples for value in sums.values()]),
                np.stack([value.series.T for value in sums.values()]),
            )


def _packed(
    rows: npt.NDArray[np.int64], minutes: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return keys that sort and hash quickly: minutes of any stamp fit 38 bits."""
    return minutes << _ROW_BITS | rows


def _unpacked(key: int) -> Minute:
    return Minute(key & (1 << _ROW_BITS) - 1, key >> _ROW_BITS)


def _sums(series: Floats, begins: npt.NDArray[np.intp]) -> Floats:
    """Return groups of rows × (count, sum, least, greatest) × SERIES."""
    known = ~np.isnan(series)
    parts = (
        np.add.reduceat(known.astype(np.float64), begins),
        np.add.reduceat(np.where(known, series, 0.0), begins),
        np.minimum.reduceat(np.where(known, series, np.inf), begins),
        np.maximum.reduceat(np.where(known, series, -np.inf), begins),
    )
    return np.stack(parts, axis=1)


def _empties(slots: int) -> Floats:
    return np.tile(_empty(len(SERIES)).T, (slots, 1, 1))
