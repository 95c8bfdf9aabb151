"""Each method's recent error, and the share in the forecast it earns by that.

At each step every method says what it expects at a few horizons; when the time
has come, the error counts, the latest errors most. Shares are the errors to
the power -8: the best takes nearly all, equals share, and nothing flaps as a
hard choice would. (Bates and Granger 1969 combine by inverse squared error;
a higher power scored better on the recorded series, bench/forecast.py.)
"""

from collections import deque
from collections.abc import Iterable, Sequence

from .methods import METHODS, Values
from .state import Plain

HORIZONS = (1, 3, 8, 15, 30)  # steps
FORGETTING = 0.99  # a step: the memory is about 100 steps
SHARPNESS = 8
FEWEST = 10  # errors, discounted, that make a record


class Record:
    """The errors of all methods at all horizons."""

    def __init__(self) -> None:
        # For each horizon, what was said for the coming steps, oldest first.
        self._said: list[deque[Values]] = [deque(maxlen=h) for h in HORIZONS]
        self._sums = [[0.0] * len(METHODS) for _ in HORIZONS]
        self._counts = [[0.0] * len(METHODS) for _ in HORIZONS]

    def say(self, ahead: Sequence[Values]) -> None:
        """Keep what is expected at each horizon from now."""
        for said, values in zip(self._said, ahead, strict=True):
            said.append(values)

    def due(self, horizon: int) -> Values | None:
        """Return what was said of the coming step, `HORIZONS[horizon]` before it."""
        said = self._said[horizon]
        return said[0] if len(said) == HORIZONS[horizon] else None

    def put(self, value: float, most: float) -> None:
        """Count a reading against what was said; one error weighs at most `most`."""
        for horizon, (sums, counts) in enumerate(
            zip(self._sums, self._counts, strict=True)
        ):
            said = self.due(horizon)
            if said is None:
                continue
            for method, expected in enumerate(said):
                if expected is not None:
                    error = abs(value - expected)
                    sums[method] = FORGETTING * sums[method] + (min(most, error))
                    counts[method] = FORGETTING * counts[method] + 1.0

    def silence(self) -> None:
        """Drop what was said of steps that will not be counted."""
        for said in self._said:
            said.clear()

    def forget(self, methods: Iterable[int]) -> None:
        """Let methods start again, since they say something else now."""
        for method in methods:
            for sums, counts in zip(self._sums, self._counts, strict=True):
                sums[method] = counts[method] = 0.0
            for said in self._said:
                for values in said:
                    values[method] = None

    def errors(self, horizon: int) -> Values:
        """Return each method's mean absolute error; None: no record yet."""
        return [
            total / count if count >= FEWEST else None
            for total, count in zip(
                self._sums[horizon], self._counts[horizon], strict=True
            )
        ]

    def shares(self, horizon: int) -> list[float]:
        """Return each method's share, which sum to 1.

        With no record at this horizon those of the next shorter one; with none at
        all the last value's is 1.
        """
        for shorter in range(horizon, -1, -1):
            errors = self.errors(shorter)
            known = [error for error in errors if error is not None]
            if known:
                return _shares(errors, min(known))
        return [1.0, *[0.0] * (len(METHODS) - 1)]

    def state(self) -> Plain:
        """Return everything as plain data."""
        return {
            "said": [list(said) for said in self._said],
            "sums": self._sums,
            "counts": self._counts,
        }

    def restore(self, state: Plain) -> None:
        """Take back what `state` gave."""
        for said, held in zip(self._said, state["said"], strict=True):
            said.extend(_row(values) for values in held)
        self._sums = [_row(sums) for sums in state["sums"]]
        self._counts = [_row(counts) for counts in state["counts"]]
        if not len(self._sums) == len(self._counts) == len(HORIZONS):
            raise ValueError(f"a record that has not {len(HORIZONS)} horizons")


def blend(values: Values, shares: Sequence[float]) -> float | None:
    """Return the mean of what is known, by shares; None: nothing is."""
    total = whole = 0.0
    for value, share in zip(values, shares, strict=True):
        if share and value is not None:
            total += share * value
            whole += share
    if whole:
        return total / whole
    return next((value for value in values if value is not None), None)


def _shares(errors: Values, least: float) -> list[float]:
    if not least:
        raw = [1.0 if error == 0 else 0.0 for error in errors]
    else:
        raw = [
            0.0 if error is None else (least / error) ** SHARPNESS for error in errors
        ]
    whole = sum(raw)
    return [share / whole for share in raw]


def _row(values: Plain) -> Plain:
    if len(values) != len(METHODS):
        raise ValueError(f"a record of {len(values)} methods, not {len(METHODS)}")
    return list(values)
