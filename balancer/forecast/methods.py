"""The methods side by side: each says what a series will be, steps ahead.

Levels alone, and patterns with what is left of the present deviation from
them. All are cheap: constant time a step. None of them knows whether it is any
good: record.py does.
"""

from collections.abc import Sequence
from statistics import median

from .cycle import Cycle
from .days import Days
from .levels import Mean, Median, Trend
from .state import Plain

MEANS = (0.2, 0.05)  # gains: memories of about 5 and 20 steps
MEDIANS = (7, 25)  # steps
# A deviation from the pattern is passing (0.3) or the new normal (0.03).
DEVIATIONS = (0.3, 0.03)  # gains
PATTERNS = ("day", "week", "cycle")

METHODS = (
    "last value",
    *(f"mean, gain {gain}" for gain in MEANS),
    *(f"median of {size}" for size in MEDIANS),
    "damped trend",
    *(
        name
        for pattern in PATTERNS
        for name in (pattern, *(f"{pattern}, deviation {g}" for g in DEVIATIONS))
    ),
)
CYCLIC = tuple(i for i, name in enumerate(METHODS) if name.startswith("cycle"))

Values = list[float | None]
_UNKNOWN: Values = [None] * (1 + len(DEVIATIONS))  # a pattern and what rests on it


class Methods:
    """All methods of one series."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._last: float | None = None
        self._means = [Mean(gain) for gain in MEANS]
        self._medians = [Median(size) for size in MEDIANS]
        self._trend = Trend()
        self._deviations = [[Mean(gain) for gain in DEVIATIONS] for _ in PATTERNS]
        self._days = Days(step_s)
        self._cycle = Cycle()

    @property
    def cycle_steps(self) -> float | None:
        """The length of the cycle found; None: none was."""
        return self._cycle.period

    def ahead(self, now: float, steps: int) -> Values:
        """Return what each of METHODS expects; None from one that can't tell."""
        found: Values = [self._last]
        found += [mean.level for mean in self._means]
        found += [one.level for one in self._medians]
        found.append(self._trend.ahead(steps))
        patterns = self._patterns(now + steps * self._step_s, steps)
        for pattern, deviations in zip(patterns, self._deviations, strict=True):
            if pattern is None:
                found += _UNKNOWN
            else:
                found.append(pattern)
                found += [pattern + (one.level or 0.0) for one in deviations]
        return found

    def put(self, at_s: float, value: float, tamed: float, *, suspect: bool) -> bool:
        """Count a reading; true if another cycle was found just now.

        `tamed` is the reading without what goes beyond belief (guard.py).
        """
        for pattern, deviations in zip(
            self._patterns(at_s, 1), self._deviations, strict=True
        ):
            if pattern is not None:
                for deviation in deviations:
                    deviation.put(tamed - pattern)
        self._last = value
        for mean in self._means:
            mean.put(tamed)
        for one in self._medians:
            one.put(value)
        self._trend.put(tamed)
        self._days.put(at_s, value, suspect=suspect)
        return self._moved(value)

    def skip(self) -> bool:
        """Count a step without a reading; true if another cycle was found."""
        return self._last is not None and self._moved(self._last)

    def silence(self) -> None:
        """Let the cycle go: the steps between are not known."""
        self._cycle = Cycle()

    def shift(self, at_s: float, run: Sequence[float]) -> None:
        """Take a run of far readings, up to now, for the new level."""
        level = median(run)
        for mean in self._means:
            mean.level = level
        for one in self._medians:
            one.restart(run)
        self._trend.stand(level)
        for pattern, deviations in zip(
            self._patterns(at_s, 0), self._deviations, strict=True
        ):
            if pattern is not None:
                for deviation in deviations:
                    deviation.level = level - pattern

    def _moved(self, value: float) -> bool:
        found = self._cycle.put(value)
        if found:
            for deviation in self._deviations[PATTERNS.index("cycle")]:
                deviation.level = None
        return found

    def _patterns(self, at_s: float, steps: int) -> tuple[float | None, ...]:
        return self._days.day(at_s), self._days.week(at_s), self._cycle.ahead(steps)

    def state(self) -> Plain:
        """Return everything as plain data."""
        return {
            "last": self._last,
            "means": [mean.level for mean in self._means],
            "medians": [one.state() for one in self._medians],
            "trend": [self._trend.level, self._trend.slope],
            "deviations": [[d.level for d in pattern] for pattern in self._deviations],
            "days": self._days.state(),
            "cycle": self._cycle.state(),
        }

    def restore(self, state: Plain) -> None:
        """Take back what `state` gave."""
        self._last = state["last"]
        for mean, level in zip(self._means, state["means"], strict=True):
            mean.level = level
        for one, values in zip(self._medians, state["medians"], strict=True):
            one.restart(values)
        self._trend.level, self._trend.slope = state["trend"]
        for pattern, levels in zip(self._deviations, state["deviations"], strict=True):
            for deviation, level in zip(pattern, levels, strict=True):
                deviation.level = level
        self._days.restore(state["days"])
        self._cycle.restore(state["cycle"])
