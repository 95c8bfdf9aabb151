"""Which readings are beyond belief, and when they are the new normal.

A reading is far if it misses the forecast of one step by more than FAR times
the usual miss. Far readings are suspect: they enter means, and the errors of
methods, only up to the limit, and the profile of the day only if they repeat
(days.py). A run of them on the
same side is a shift of level: believed, and the levels start again from it.
"""

from collections.abc import Sequence
from math import inf, sqrt
from typing import NamedTuple

from .state import Plain

# 6.4 standard deviations of normal noise, 8 scales of Laplace's: about one
# sound reading in 3,000 is held for suspect when tails are heavy.
FAR = 8.0
GAIN = 0.05  # the usual miss is over about 20 steps
WARM = 20  # misses, before anything is suspect
RUN = 6  # far readings on one side that make a shift


class Judged(NamedTuple):
    """What the guard says of a reading."""

    tamed: float  # the reading, moved to the limit if far
    suspect: bool
    most: float  # that an error by it may weigh; inf unless suspect
    shift: Sequence[float] = ()  # the run that is now believed


class Guard:
    """The usual miss, and the run of far readings so far."""

    def __init__(self, *, counts: bool) -> None:
        self._counts = counts
        self._usual: float | None = None
        self._seen = 0
        self._run: list[float] = []
        self._above = False

    @property
    def usual(self) -> float | None:
        """The mean miss of one step; None before the first."""
        return self._usual

    def limit(self, expected: float) -> float:
        """Return how far a reading may be from what was expected; inf: any."""
        if self._usual is None or self._seen < WARM:
            return inf
        limit = FAR * self._usual
        if self._counts:
            # Rare events come as 0 0 0 1: chance alone (Poisson) is not suspect.
            limit = max(limit, 3.0 + 6.0 * sqrt(max(0.0, expected)))
        return limit

    def judge(self, value: float, expected: float | None) -> Judged:
        """Return what to make of a reading, and count it."""
        if expected is None:
            return Judged(value, suspect=False, most=inf)
        limit = self.limit(expected)
        miss = value - expected
        self._count(min(abs(miss), limit))
        if abs(miss) <= limit:
            self._run.clear()
            return Judged(value, suspect=False, most=inf)
        above = miss > 0
        if above != self._above:
            self._run.clear()
        self._above = above
        self._run.append(value)
        if len(self._run) == RUN:
            run, self._run = tuple(self._run), []
            return Judged(value, suspect=False, most=inf, shift=run)
        tamed = expected + (limit if above else -limit)
        return Judged(tamed, suspect=True, most=limit)

    def _count(self, miss: float) -> None:
        self._seen += 1
        usual = miss if self._usual is None else self._usual
        # A plain mean first, so that the first miss does not linger.
        self._usual = usual + max(GAIN, 1 / self._seen) * (miss - usual)

    def state(self) -> Plain:
        """Return everything as plain data."""
        return [self._usual, self._seen, self._run, self._above]

    def restore(self, state: Plain) -> None:
        """Take back what `state` gave."""
        self._usual, self._seen, run, self._above = state
        self._run = [float(value) for value in run][:RUN]
