"""What was usual at this time of day, and of the week: medians over past days.

A day is a row of at most 288 bins (5 minutes), the mean of the steps in each;
four weeks are kept. The median of the same bin over the last days is robust:
one odd day moves nothing. A bin with suspect readings (guard.py) counts only
where it repeats: a job that runs every night is a pattern, one bad night not.

Days are those of the times given, as a rule UTC: where people change their
clocks, the pattern is an hour late for some days.

A row is 16-bit integers times the row's own quantum, the lowest bit marks
suspects: 0.6 KiB a day.
"""

from array import array
from typing import NamedTuple

from .state import Plain, packed, unpacked

DAY_S = 86_400
WEEK = 7  # days
KEPT = 4 * WEEK  # days
PROFILE = 2 * WEEK  # days that the profile of a day looks back
BINS = 288  # at most, a day
_KNOWN = 256  # medians, at most
_MISSING = -32_768
_LEAST = 1e-200  # smaller is 0: a quantum of it would be
_MOST = 16_000  # quanta, so that twice as many fit 16 bits


class _Row:
    """One day."""

    __slots__ = ("bins", "day", "quantum")

    def __init__(self, day: int, quantum: float, bins: "array[int]") -> None:
        self.day = day
        self.quantum = quantum
        self.bins = bins

    def put(self, place: int, value: float, suspect: bool) -> None:
        if abs(value) < _LEAST:
            value = 0.0
        while abs(value) > _MOST * self.quantum:
            self._coarser(abs(value))
        quanta = round(value / self.quantum) if self.quantum else 0
        self.bins[place] = 2 * quanta + suspect

    def _coarser(self, magnitude: float) -> None:
        # Room for four times the value, so that this is done seldom.
        quantum = 4 * magnitude / _MOST
        shrink = self.quantum / quantum
        for place, held in enumerate(self.bins):
            if held != _MISSING:
                self.bins[place] = 2 * round((held >> 1) * shrink) + (held & 1)
        self.quantum = quantum


class _Filling(NamedTuple):
    """The bin that steps still go into."""

    day: int
    place: int
    total: float
    steps: int
    suspects: int


class Days:
    """The last four weeks, a row a day."""

    def __init__(self, step_s: float) -> None:
        self.bins = max(1, min(BINS, int(DAY_S / step_s)))
        self._bin_s = DAY_S / self.bins
        # Bins that hold several steps are joined by straight lines.
        self._joined = self._bin_s >= 2 * step_s
        self._rows: list[_Row] = []
        self._filling: _Filling | None = None
        # Medians of bins less than a day ahead, which nothing to come can change.
        self._known: dict[tuple[int, int], float | None] = {}

    def put(self, at_s: float, value: float, *, suspect: bool) -> None:
        """Count a reading; times must not go back."""
        day, place = self._where(at_s)
        held = self._filling
        if held is None or (held.day, held.place) != (day, place):
            held = _Filling(day, place, 0.0, 0, 0)
        held = held._replace(
            total=held.total + value,
            steps=held.steps + 1,
            suspects=held.suspects + suspect,
        )
        self._filling = held
        row = self._row(day)
        quantum = row.quantum
        row.put(place, held.total / held.steps, 2 * held.suspects > held.steps)
        if row.quantum != quantum:
            self._known.clear()  # the whole row was rounded anew

    def day(self, at_s: float) -> float | None:
        """Return the usual value at this time of day; None: never read."""
        return self._usual(at_s, 1, PROFILE)

    def week(self, at_s: float) -> float | None:
        """Return the usual value at this time of the week; None: never read."""
        return self._usual(at_s, WEEK, KEPT)

    def _usual(self, at_s: float, every: int, back: int) -> float | None:
        if not self._joined:
            return self._middle(int(at_s // self._bin_s), every, back)
        place = at_s / self._bin_s - 0.5
        before = int(place // 1)
        share = place - before
        first = self._middle(before, every, back)
        second = self._middle(before + 1, every, back)
        if first is None or second is None:
            return first if second is None else second
        return first + share * (second - first)

    def _middle(self, number: int, every: int, back: int) -> float | None:
        key = number, every
        if key in self._known:
            return self._known[key]
        day, place = divmod(number, self.bins)
        found = self._median(day, place, every, back)
        held = self._filling
        if held is not None and number < (held.day + 1) * self.bins + held.place:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def _median(self, day: int, place: int, every: int, back: int) -> float | None:
        sound: list[float] = []
        suspect: list[float] = []
        for row in self._rows:
            ago = day - row.day
            if 0 < ago <= back and ago % every == 0:
                held = row.bins[place]
                if held != _MISSING:
                    value = (held >> 1) * row.quantum
                    (suspect if held & 1 else sound).append(value)
        if len(suspect) >= 2 and len(suspect) >= len(sound):
            sound += suspect
        if not sound:
            return None
        sound.sort()
        middle = len(sound) // 2
        return (sound[middle] + sound[~middle]) / 2

    def _where(self, at_s: float) -> tuple[int, int]:
        return divmod(int(at_s // self._bin_s), self.bins)

    def _row(self, day: int) -> _Row:
        if not self._rows or self._rows[-1].day != day:
            empty = array("h", [_MISSING]) * self.bins
            self._rows = [r for r in self._rows if day - KEPT <= r.day < day]
            self._rows.append(_Row(day, 0.0, empty))
        return self._rows[-1]

    def state(self) -> Plain:
        """Return everything as plain data."""
        rows = [(row.day, row.quantum, packed(row.bins)) for row in self._rows]
        return {"bins": self.bins, "rows": rows, "filling": self._filling}

    def restore(self, state: Plain) -> None:
        """Take back what `state` gave; a ValueError if it is for other bins."""
        if state["bins"] != self.bins:
            raise ValueError(f"{state['bins']} bins a day, not {self.bins}")
        rows = [
            _Row(int(day), float(quantum), unpacked("h", bins))
            for day, quantum, bins in state["rows"]
        ]
        if any(len(row.bins) != self.bins for row in rows):
            raise ValueError(f"a day that has not {self.bins} bins")
        self._rows = rows
        self._known.clear()
        held = state["filling"]
        self._filling = None if held is None else _Filling(*held)
