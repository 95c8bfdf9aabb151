"""The band of a forecast: how far the last forecasts of each horizon missed.

Empirical quantiles of the signed misses, so a load that only ever jumps up has
its band above. No shape of noise is assumed; the band is as wide as forecasts
like this one were wrong. The quantiles are those of a conformal interval (Vovk
et al. 2005): with n misses the outer rank is ceil((n + 1) q), which covers in
the mean if misses to come are like those seen.
"""

from collections import deque
from math import ceil
from typing import NamedTuple

from .record import HORIZONS
from .state import Plain

KEPT = 200  # misses at each horizon
COVERAGE = 0.9
FEWEST = 19  # misses: with fewer, a band of COVERAGE can't be told


class Width(NamedTuple):
    """What to add to a forecast for the ends of its band."""

    low: float
    high: float


class Bands:
    """The last misses at each horizon."""

    def __init__(self) -> None:
        self._expected: list[deque[float | None]] = [deque(maxlen=h) for h in HORIZONS]
        self._misses: list[deque[float]] = [deque(maxlen=KEPT) for _ in HORIZONS]

    def say(self, ahead: list[float | None]) -> None:
        """Keep the forecast of each horizon."""
        for expected, value in zip(self._expected, ahead, strict=True):
            expected.append(value)

    def due(self) -> float | None:
        """Return the forecast of the coming step made one step before it."""
        return self._expected[0][0] if self._expected[0] else None

    def silence(self) -> None:
        """Drop the forecasts of steps that will not be counted."""
        for expected in self._expected:
            expected.clear()

    def put(self, value: float) -> None:
        """Count a reading against the forecasts of it."""
        for horizon, expected, misses in zip(
            HORIZONS, self._expected, self._misses, strict=True
        ):
            said = expected[0] if len(expected) == horizon else None
            if said is not None:
                misses.append(value - said)

    def width(self, horizon: int) -> Width | None:
        """Return the band of COVERAGE at a horizon; None: too few misses yet."""
        ordered = sorted(self._misses[horizon])
        if len(ordered) < FEWEST:
            return None
        outer = ceil((len(ordered) + 1) * (1 + COVERAGE) / 2)
        outer = min(outer, len(ordered))
        return Width(ordered[-outer], ordered[outer - 1])

    def state(self) -> Plain:
        """Return everything as plain data."""
        return {
            "expected": [list(expected) for expected in self._expected],
            "misses": [list(misses) for misses in self._misses],
        }

    def restore(self, state: Plain) -> None:
        """Take back what `state` gave."""
        for expected, held in zip(self._expected, state["expected"], strict=True):
            expected.extend(held)
        for misses, held in zip(self._misses, state["misses"], strict=True):
            misses.extend(held)
