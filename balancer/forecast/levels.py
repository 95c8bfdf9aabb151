"""Where a series stands: last value, means, running medians, damped trend.

Each takes a value a step in constant time; None before the first. Gaps change
nothing: a level stays where it was.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable

from .state import Plain


class Mean:
    """An exponentially weighted mean; gain 1 is the last value."""

    __slots__ = ("gain", "level")

    def __init__(self, gain: float) -> None:
        self.gain = gain
        self.level: float | None = None

    def put(self, value: float) -> None:
        """Count a value."""
        level = value if self.level is None else self.level
        self.level = level + self.gain * (value - level)


class Median:
    """The median of the last `size` values."""

    __slots__ = ("_ordered", "_recent", "level")

    def __init__(self, size: int) -> None:
        self._recent: deque[float] = deque(maxlen=size)
        self._ordered: list[float] = []
        self.level: float | None = None

    def put(self, value: float) -> None:
        """Count a value."""
        ordered = self._ordered
        if len(self._recent) == self._recent.maxlen:
            del ordered[bisect_left(ordered, self._recent[0])]
        self._recent.append(value)
        insort(ordered, value)
        middle = len(ordered) // 2
        self.level = (ordered[middle] + ordered[~middle]) / 2

    def restart(self, values: Iterable[float]) -> None:
        """Forget all values but these."""
        self._recent.clear()
        self._ordered.clear()
        for value in values:
            self.put(float(value))

    def state(self) -> Plain:
        """Return the values as plain data, which `restart` takes back."""
        return list(self._recent)


# Gardner and McKenzie 1985: a damped trend is hard to beat and never runs away.
# The gains are usual ones; the choice among methods is by error, not by tuning.
LEVEL_GAIN = 0.5
TREND_GAIN = 0.1
DAMPING = 0.9


class Trend:
    """A level and a slope that dies away (damped Holt)."""

    __slots__ = ("level", "slope")

    def __init__(self) -> None:
        self.level: float | None = None
        self.slope = 0.0

    def put(self, value: float) -> None:
        """Count a value."""
        if self.level is None:
            self.level = value
            return
        damped = DAMPING * self.slope
        level = self.level + damped + LEVEL_GAIN * (value - self.level - damped)
        self.slope = damped + TREND_GAIN * (level - self.level - damped)
        self.level = level

    def ahead(self, steps: int) -> float | None:
        """Return the level so many steps ahead."""
        if self.level is None:
            return None
        spread = DAMPING * (1 - DAMPING**steps) / (1 - DAMPING)
        return self.level + self.slope * spread

    def stand(self, level: float) -> None:
        """Start again at a level."""
        self.level, self.slope = level, 0.0
