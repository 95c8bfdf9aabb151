"""A cycle of any length: found by a cheap test, foreseen by its median.

The test is the average magnitude difference function (Ross et al. 1974): a lag
at which the last values differ little from themselves, compared with other
lags. Two lags are tried a step, so a sweep takes a while and no step is slow.
Multiples of the lag sharpen it: a cycle need not be whole steps.

A cycle found by mistake does no harm, since methods are chosen by their error
(record.py).
"""

from array import array
from itertools import islice
from operator import sub
from statistics import median

from .state import Plain, packed, unpacked

KEPT = 512  # values
SLACK = 64  # values that may go at once
LONGEST = KEPT // 3  # steps: a cycle is seen three times
SHORTEST = 4  # steps
FEWEST = 32  # values, for a first look
LAGS_A_STEP = 2
TURNS = 5  # that the median is over
# Of the median over all lags. Pure noise gives about 0.85 at best.
CLEAR = 0.7
# Of the cycle held, for another to replace it; of the median, for it to stay.
BETTER = 0.9


class Cycle:
    """The last values, and the cycle found in them."""

    def __init__(self) -> None:
        self._values = array("d")  # newest last; SLACK more than KEPT
        self._differences = array("d")  # of the sweep so far, SHORTEST up
        self._longest = 0  # lag of the sweep
        self.period: float | None = None  # steps

    def put(self, value: float) -> bool:
        """Count a value; true if another cycle was found just now.

        A step without one counts as the value before: lags must stay true.
        """
        self._values.append(value)
        if len(self._values) >= KEPT + SLACK:
            del self._values[:-KEPT]
        if len(self._values) < FEWEST:
            return False
        if not self._differences:
            self._longest = min(len(self._values), KEPT) // 3
        for _ in range(LAGS_A_STEP):
            lag = SHORTEST + len(self._differences)
            if lag <= self._longest:
                self._differences.append(self._difference(lag))
        if SHORTEST + len(self._differences) <= self._longest:
            return False
        found = clearest(self._differences.tolist(), self.period)
        del self._differences[:]
        changed = found is not None and (
            self.period is None or abs(found - self.period) > 0.5
        )
        self.period = found
        return changed

    def ahead(self, steps: int) -> float | None:
        """Return the median of the last turns, so many steps ahead; 0 is now."""
        if self.period is None:
            return None
        held = self._values
        now = len(held) - 1
        first = max(0, now + 1 - KEPT)
        turn = max(1, -int(-steps // self.period))  # the last one that was seen
        seen: list[float] = []
        for back in range(turn, turn + TURNS):
            place = now + steps - round(back * self.period)
            if place < first:
                break
            if place <= now:
                seen.append(held[place])
        if not seen:
            return None
        seen.sort()
        middle = len(seen) // 2
        return (seen[middle] + seen[~middle]) / 2

    def _difference(self, lag: int) -> float:
        # The same number of values at each lag of a sweep.
        held, count, compared = self._values, len(self._values), 2 * self._longest
        newer = islice(held, count - compared, count)
        older = islice(held, count - compared - lag, count - lag)
        total: float = sum(map(abs, map(sub, newer, older)))
        return total / compared

    def state(self) -> Plain:
        """Return everything as plain data."""
        return {
            "values": packed(self._values),
            "differences": packed(self._differences),
            "longest": self._longest,
            "period": self.period,
        }

    def restore(self, state: Plain) -> None:
        """Take back what `state` gave."""
        self._values = unpacked("d", state["values"])[-KEPT - SLACK :]
        self._differences = unpacked("d", state["differences"])[:LONGEST]
        self._longest = min(int(state["longest"]), LONGEST)
        self.period = None if state["period"] is None else float(state["period"])


def clearest(differences: list[float], held: float | None) -> float | None:
    """Return the cycle in steps that differences by lag tell of; None: none.

    The first lag is SHORTEST. `held` is the cycle known so far: another must be
    clearer by BETTER to take its place.
    """
    usual = median(differences)
    limit = CLEAR * usual
    dips = [
        (difference, lag)
        for lag, difference in enumerate(differences, SHORTEST)
        if difference < limit and _dip(differences, lag - SHORTEST)
    ]
    last = SHORTEST + len(differences) - 1
    now = None
    if held is not None and SHORTEST <= round(held) <= last:
        now = _least_near(differences, held)
    if not dips:
        faint = now is not None and differences[now - SHORTEST] < BETTER * usual
        return held if faint else None
    best = min(dips)[0]
    # A multiple of the cycle fits as well, and by chance a little better.
    lag = next(lag for difference, lag in dips if difference <= best + 0.1 * usual)
    best = differences[lag - SHORTEST]
    if now is not None and differences[now - SHORTEST] * BETTER <= best:
        lag = now
    return _sharpened(differences, lag, limit)


def _dip(differences: list[float], place: int) -> bool:
    """Return whether it falls here after a rise: a slow series only rises."""
    if not 0 < place < len(differences) - 1:
        return False
    here = differences[place]
    lowest = differences[place - 1] >= here <= differences[place + 1]
    return lowest and here < CLEAR * max(differences[:place])


def _sharpened(differences: list[float], lag: int, limit: float) -> float:
    """Return the lag with its fraction, from its multiples that are clear too."""
    last = SHORTEST + len(differences) - 1
    period = float(lag)
    for turns in range(2, last // lag + 1):
        if round(turns * period) >= last:  # both sides must be there
            break
        found = _least_near(differences, turns * period)
        if differences[found - SHORTEST] >= limit:
            break
        period = found / turns
    return period


def _least_near(differences: list[float], lag: float) -> int:
    near = (round(lag) + by for by in (0, -1, 1))
    return min(
        (one for one in near if 0 <= one - SHORTEST < len(differences)),
        key=lambda one: differences[one - SHORTEST],
    )
