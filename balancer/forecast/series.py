"""The forecast of one series: a load, a headroom, a count, at a fixed step.

Each step brings a reading or None. The guard judges it, every method is held
to what it said, the profile learns, and each method says what it expects next.
A forecast is the methods' blend by their recent error, with a band by how far
the last blends missed. Time is an argument; the whole is plain data, some 30 KiB
at most, and survives a restart through `state`.
"""

from collections.abc import Mapping
from math import log
from typing import NamedTuple, Self

from .band import Bands, Width
from .guard import Guard
from .methods import CYCLIC, METHODS, Methods
from .record import HORIZONS, Record, blend
from .state import VERSION, BadState, Plain

# No load is larger, and sums of such stay finite.
LARGEST = 1e100
# A gap longer than this breaks what was said of it; nothing is made up for it.
LONGEST_GAP = HORIZONS[-1]  # steps


class Kind(NamedTuple):
    """What a series is made of. Readings and forecasts stay within the limits."""

    step_s: float
    least: float | None = None
    most: float | None = None
    counts: bool = False  # of events: never below 0, and rare ones are no surprise


class Expected(NamedTuple):
    """What a step will bring: the value, and the band that holds 9 of 10."""

    at_s: float
    value: float
    low: float | None  # None: too few forecasts so far to tell
    high: float | None


class Said(NamedTuple):
    """One method's part at a horizon."""

    method: str
    share: float  # 0 to 1
    error: float | None  # mean absolute error of late, in the series' unit


class Why(NamedTuple):
    """What a forecast is made of."""

    horizon_s: float
    method: str  # the one with the largest share
    shares: tuple[Said, ...]  # largest first, those of 1 % and more
    last_value_error: float | None  # what it would be to change nothing
    cycle_s: float | None  # of the cycle found, beside day and week


class Series:
    """One series. Times must not go back; a step is counted once."""

    def __init__(self, kind: Kind) -> None:
        if kind.step_s <= 0:
            raise ValueError(f"step_s: {kind.step_s:g}, but a step takes time")
        self.kind = kind
        self._least = 0.0 if kind.counts and kind.least is None else kind.least
        self._step: int | None = None  # the last one counted
        self._methods = Methods(kind.step_s)
        self._record = Record()
        self._bands = Bands()
        self._guard = Guard(counts=kind.counts)

    @property
    def at_s(self) -> float | None:
        """The start of the last step counted; None before the first."""
        return None if self._step is None else self._step * self.kind.step_s

    def update(self, at_s: float, value: float | None, *, outage: bool = False) -> bool:
        """Count the reading of the step that `at_s` is in; false if it came late.

        None, any reading of an outage, and what is no number up to LARGEST, is no
        reading: the series holds still and learns nothing. Steps left out count
        as None.
        """
        step = int(at_s // self.kind.step_s)
        if self._step is not None:
            if step <= self._step:
                return False
            if step - self._step > LONGEST_GAP:
                self._record.silence()
                self._bands.silence()
                self._methods.silence()
            else:
                for missed in range(self._step + 1, step):
                    self._count(missed, None)
        read = value is not None and abs(value) <= LARGEST and not outage
        self._count(step, value if read else None)
        return True

    def forecast(self, steps: int) -> list[Expected]:
        """Return what the next steps will bring; empty before the first reading.

        Beyond 30 steps shares and band are those of 30.
        """
        if self._step is None:
            return []
        shares = [self._record.shares(index) for index in range(len(HORIZONS))]
        widths = [self._bands.width(index) for index in range(len(HORIZONS))]
        now = self._step * self.kind.step_s
        found: list[Expected] = []
        for ahead in range(1, steps + 1):
            value = blend(self._methods.ahead(now, ahead), shares[_nearest(ahead)])
            if value is None:
                return []
            width = _between(widths, ahead)
            found.append(
                Expected(
                    now + ahead * self.kind.step_s,
                    self._within(value),
                    None if width is None else self._within(value + width.low),
                    None if width is None else self._within(value + width.high),
                )
            )
        return found

    def explain(self, steps: int) -> Why:
        """Return which methods make the forecast so many steps ahead, and why."""
        horizon = _nearest(steps)
        errors = self._record.errors(horizon)
        shares = self._record.shares(horizon)
        parts = sorted(map(Said, METHODS, shares, errors), key=lambda said: -said.share)
        cycle = self._methods.cycle_steps
        return Why(
            horizon_s=HORIZONS[horizon] * self.kind.step_s,
            method=parts[0].method,
            shares=tuple(said for said in parts if said.share >= 0.01),
            last_value_error=errors[0],
            cycle_s=None if cycle is None else cycle * self.kind.step_s,
        )

    def each(self, steps: int) -> dict[str, float | None]:
        """Return what each method alone expects so many steps ahead."""
        if self._step is None:
            return dict.fromkeys(METHODS)
        now = self._step * self.kind.step_s
        return dict(zip(METHODS, self._methods.ahead(now, steps), strict=True))

    def _count(self, step: int, value: float | None) -> None:
        at_s = step * self.kind.step_s
        if value is None:
            moved = self._methods.skip()
        else:
            value = self._within(value)
            moved = self._learn(at_s, value)
        self._step = step
        if moved:
            self._record.forget(CYCLIC)
        ahead = [self._methods.ahead(at_s, horizon) for horizon in HORIZONS]
        self._record.say(ahead)
        self._bands.say(
            [
                blend(values, self._record.shares(index))
                for index, values in enumerate(ahead)
            ]
        )

    def _learn(self, at_s: float, value: float) -> bool:
        expected = self._bands.due()
        judged = self._guard.judge(value, expected)
        self._record.put(value, judged.most)
        self._bands.put(value)
        moved = self._methods.put(at_s, value, judged.tamed, suspect=judged.suspect)
        if judged.shift:
            self._methods.shift(at_s, judged.shift)
            # What was said before is of another level, and proves nothing now.
            self._record.silence()
        return moved

    def _within(self, value: float) -> float:
        if self._least is not None and value < self._least:
            return self._least
        if self.kind.most is not None and value > self.kind.most:
            return self.kind.most
        return value

    def state(self) -> Plain:
        """Return everything as plain data, which goes through JSON."""
        return {
            "version": VERSION,
            "kind": self.kind,
            "step": self._step,
            "methods": self._methods.state(),
            "record": self._record.state(),
            "bands": self._bands.state(),
            "guard": self._guard.state(),
        }

    @classmethod
    def restore(cls, state: Mapping[str, Plain]) -> Self:
        """Return the series that `state` gave; BadState if it can't be taken back."""
        if (version := state.get("version")) != VERSION:
            raise BadState(
                f"forecast state of version {version!r}, and this is version"
                f" {VERSION}: drop it, the series is learnt anew"
            )
        try:
            found = cls(Kind(*state["kind"]))
            found._step = None if state["step"] is None else int(state["step"])
            found._methods.restore(state["methods"])
            found._record.restore(state["record"])
            found._bands.restore(state["bands"])
            found._guard.restore(state["guard"])
        except (KeyError, TypeError, ValueError) as exc:
            raise BadState(
                f"forecast state that is not whole ({exc}): drop it, the series is"
                " learnt anew"
            ) from exc
        return found


def _nearest(steps: int) -> int:
    return _NEAREST[min(steps, HORIZONS[-1])]


# By ratio: 5 steps are nearer to 3 or 8 as 5/3 or 8/5 is less.
_NEAREST = [
    min(range(len(HORIZONS)), key=lambda i: abs(log(max(1, steps) / HORIZONS[i])))
    for steps in range(HORIZONS[-1] + 1)
]


def _between(widths: list[Width | None], steps: int) -> Width | None:
    """Return the width at a step, on straight lines between the horizons known."""
    before: tuple[int, Width] | None = None
    for horizon, width in zip(HORIZONS, widths, strict=True):
        if width is None:
            continue
        if horizon >= steps:
            if before is None or horizon == steps:
                return width
            share = (steps - before[0]) / (horizon - before[0])
            return Width(
                *(a + share * (b - a) for a, b in zip(before[1], width, strict=True))
            )
        before = horizon, width
    return None if before is None else before[1]
