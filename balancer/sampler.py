"""Draws by weight from many nodes, with weights that are never all made anew.

A draw is a bisection of cumulative sums. Weights are renewed by a sweep that
takes a few nodes at each pick, and the sums when it is through: no pick pays
for the whole fleet.
"""

from bisect import bisect
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import inf
from random import Random
from typing import Generic, TypeVar

T = TypeVar("T")

SWEEP_S = 0.1  # one sweep takes this long, in a large fleet longer
_NODE_S = 200e-6  # at least this for each node
_AT_ONCE = 16  # nodes at one pick: after a pause the rest follows


class Sampler(Generic[T]):
    """Draws members, each with probability weight / sum of weights."""

    def __init__(
        self, members: Sequence[T], weigh: Callable[[T, float], float], now: float
    ) -> None:
        self.members = members
        self._weigh = weigh
        self._weights = [weigh(member, now) for member in members]
        self._period_s = max(SWEEP_S, _NODE_S * len(members))
        self._sum_up(now)

    def draw(self, count: int, rng: Random, now: float) -> list[T]:
        """Return so many members, with replacement; there must be one."""
        if now >= self._due_at:
            self._sweep(now)
        members, sums, total, random = self.members, self._sums, self._total, rng.random
        return [members[bisect(sums, random() * total)] for _ in range(count)]

    def _sum_up(self, now: float) -> None:
        self._sums = list(accumulate(self._weights))
        if self._sums:
            self._total = self._sums[-1]
            # The product of a draw can round up to the total.
            self._sums[-1] = inf
        self._next = 0
        self._began_at = now
        self._due_at = now + self._period_s / max(1, len(self._weights))

    def _sweep(self, now: float) -> None:
        size = len(self.members)
        due = int((now - self._began_at) / self._period_s * size)
        end = max(self._next, min(due, self._next + _AT_ONCE, size))
        for place in range(self._next, end):
            self._weights[place] = self._weigh(self.members[place], now)
        self._next = end
        self._due_at = self._began_at + self._period_s / size * (end + 1)
        if end == size:
            self._sum_up(now)
