"""What a probe answers, and what it remembers from one sample to the next."""

from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

from trimtab.agent.errors import Unsupported
from trimtab.agent.host import Source
from trimtab.wire import Scope

T = TypeVar("T")

EVENTS = "events"  # the unit of a count since the sample before


class Reading(NamedTuple):
    """A value in the signal's unit. None is no reading, never 0."""

    value: float | None
    note: str = ""  # how the source departs from the usual one
    scope: Scope = Scope.HOST  # whose value it is


# A signal that this host will never give, beside others that it does.
Answer = Reading | Unsupported


def greatest(readings: Iterable[Reading]) -> Reading:
    """Return the reading of the greatest value; one without value if none has."""
    found = Reading(None)
    for reading in readings:
        value = reading.value
        if value is not None and (found.value is None or value > found.value):
            found = reading
    return found


class Probe(Protocol):
    """One source and the signals that come from it."""

    @property
    def signals(self) -> tuple[str, ...]:
        """The names, as in `trimtab.wire.SIGNALS`."""

    def sample(self, source: Source, now_us: int, /) -> Mapping[str, Answer]:
        """Read once and answer for every signal.

        `now_us` is a monotonic clock's. Unsupported, Malformed or OSError if
        there is no answer for any of them.
        """


class Last(Generic[T]):
    """The value seen last and when: what a counter is compared with."""

    def __init__(self) -> None:
        self._value: T | None = None
        self._at_us = 0

    def swap(self, value: T, now_us: int) -> tuple[T, int] | None:
        """Keep this value; return the one before and µs since then, if any."""
        before, elapsed_us = self._value, now_us - self._at_us
        self._value, self._at_us = value, now_us
        return None if before is None else (before, elapsed_us)
