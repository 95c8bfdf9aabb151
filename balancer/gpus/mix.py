"""Fragmentation: the free share of a node that the usual tasks can't use.

F(node) = Σ over the mix of frequency · what that task leaves unusable, and a
task leaves unusable all that is free where it does not fit, else what is free
on devices with less than it wants (Weng and others, "Beware of Fragmentation",
USENIX ATC 2023). A task that asks no GPU can use none of it: all of it counts.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from .room import Ask, Room

# The published share of all tasks that the typical ones cover.
COVERED = 0.95
# Fewer tasks than this say little of what will be asked.
LEAST_ASKS = 50
# Remembered at most, so that memory is bounded and old habits are forgotten.
RECENT_ASKS = 4096
# A mix made anew costs every node its fragment anew: once in so many asks.
RENEWED_EVERY = 256
# Fragments kept; nodes in the same condition share one.
_KEPT = 65_536


class Part(NamedTuple):
    """One kind of task of the mix, and how often it comes, 0.0-1.0."""

    ask: Ask
    frequency: float


class _Demands(NamedTuple):
    """What the mix wants of a model of device, given the CPUs there are."""

    lost: float  # frequency of the tasks that can't run there, whatever is free
    wanted: Sequence[tuple[int, int, float]]  # each, devices, frequency


class Mix:
    """The usual tasks. Frequencies are taken as they are, whatever their sum."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self.parts = tuple(parts)
        self._cpus = sorted({part.ask.cpu_milli for part in self.parts})
        self._fragments: dict[tuple[str, int, tuple[int, ...]], float] = {}
        self._demands: dict[tuple[str, int], _Demands] = {}

    def fragment(self, room: Room) -> float:
        """Return what is free and of no use to the mix, in units of a device."""
        key = room.model, self.enough(room.cpu_milli), room.free
        known = self._fragments.get(key)
        if known is None:
            if len(self._fragments) >= _KEPT:
                self._fragments.clear()
            known = self._fragments[key] = self._fragment(*key)
        return known

    def enough(self, cpu_milli: int) -> int:
        """Return a rank of CPUs: equal ones are enough for the same tasks."""
        return bisect_right(self._cpus, cpu_milli)

    def share(self, rooms: Iterable[Room]) -> float | None:
        """Return φ = F / all that is free, 0.0-1.0; None when nothing is free."""
        fragment, idle = 0.0, 0
        for room in rooms:
            fragment += self.fragment(room)
            idle += sum(room.free)
        return fragment / idle if idle else None

    def _fragment(self, model: str, cpus: int, free: tuple[int, ...]) -> float:
        demands = self._demands.get((model, cpus))
        if demands is None:
            demands = self._demands[model, cpus] = self._demanded(model, cpus)
        below = list(accumulate(free, initial=0))
        idle = below[-1]
        total = demands.lost * idle
        for each, devices, frequency in demands.wanted:
            short = bisect_left(free, each)  # devices with less than it wants
            runs = len(free) - short >= devices
            total += frequency * (below[short] if runs else idle)
        return total

    def _demanded(self, model: str, cpus: int) -> _Demands:
        lost = 0.0
        wanted: dict[tuple[int, int], float] = {}
        for ask, frequency in self.parts:
            short = self.enough(ask.cpu_milli) > cpus
            if short or not ask.asks_gpu or (ask.models and model not in ask.models):
                lost += frequency
            else:
                want = ask.each, ask.devices
                wanted[want] = wanted.get(want, 0.0) + frequency
        return _Demands(lost, [(*want, wanted[want]) for want in sorted(wanted)])


def unusable(free: Sequence[int], each: int) -> int:
    """Return what is free on devices with less than a task wants of one."""
    return sum(amount for amount in free if amount < each)


def typical(counts: Mapping[Ask, int], covered: float = COVERED) -> Mix | None:
    """Return the most frequent asks that together cover this share of all.

    Host memory does not tell asks apart, as in the publication. None: nothing
    was asked.
    """
    shapes: Counter[Ask] = Counter()
    for ask, count in counts.items():
        shapes[ask._replace(memory_mib=0)] += count
    # Of equally frequent ones the larger first, so that the order is fixed.
    order = sorted(shapes, key=lambda ask: (shapes[ask], *_size(ask)), reverse=True)
    chosen: list[Ask] = []
    seen = 0
    for ask in order:
        if seen >= covered * shapes.total():
            break
        chosen.append(ask)
        seen += shapes[ask]
    return Mix(Part(ask, shapes[ask] / seen) for ask in chosen) if seen else None


def _size(ask: Ask) -> tuple[int, int, int, tuple[str, ...]]:
    return ask.cpu_milli, ask.each, ask.devices, ask.models


class RecentAsks:
    """What was asked lately, and the mix that it makes."""

    def __init__(self) -> None:
        self._asks: deque[Ask] = deque(maxlen=RECENT_ASKS)
        self._since = 0
        self._mix: Mix | None = None

    def saw(self, ask: Ask) -> None:
        """Remember one."""
        self._asks.append(ask._replace(memory_mib=0))
        self._since += 1

    def mix(self) -> Mix | None:
        """Return the mix of the last asks; None before there are 50."""
        if len(self._asks) < LEAST_ASKS:
            return None
        if self._mix is None or self._since >= RENEWED_EVERY:
            self._mix, self._since = typical(Counter(self._asks)), 0
        return self._mix
