"""Draws by weight from many nodes, each at the same price whatever the number.

An alias table (Walker 1977, built as Vose 1991 does) needs one random number
and two looks. Weights are renewed by a sweep that takes a few nodes at each
pick, and the table when it is through: hardly a pick pays for the whole fleet.
"""

from collections.abc import Callable, Sequence
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
        self._tabulate(now)

    def draw(self, count: int, rng: Random, now: float) -> list[T]:
        """Return so many members, with replacement; there must be one."""
        if now >= self._due_at:
            self._sweep(now)
        members, keep, others, random = (
            self.members,
            self._keep,
            self._others,
            rng.random,
        )
        size = len(members)
        # Place i is drawn by the whole part, kept or not by the fraction.
        return [
            members[i] if spot < keep[i] else others[i]
            for spot in [random() * size for _ in range(count)]
            for i in (int(spot),)
        ]

    def _tabulate(self, now: float) -> None:
        self._keep, self._others = table(self.members, self._weights)
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
            self._tabulate(now)


def table(
    members: Sequence[T], weights: Sequence[float]
) -> tuple[list[float], list[T]]:
    """Return for each place up to where its member is drawn, and who else is.

    A spot from i to i + 1 draws member i below the first, else the second.
    """
    size = len(members)
    mean = sum(weights) / size if size else 0.0
    shares = [each / mean for each in weights] if mean > 0 else [1.0] * size
    others = list(members)
    keep = [place + 1.0 for place in range(size)]
    small = [place for place, share in enumerate(shares) if share < 1.0]
    large = [place for place, share in enumerate(shares) if share >= 1.0]
    while small and large:
        less, more = small.pop(), large[-1]
        keep[less] = less + shares[less]
        others[less] = members[more]
        shares[more] -= 1.0 - shares[less]
        if shares[more] < 1.0:
            small.append(large.pop())
    return keep, others
