"""The comparison: the least cost wins, equals by chance."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def least(members: Sequence[T], costs: Sequence[float], rng: Random) -> T:
    """Return the member of least cost; of several, one by chance."""
    lowest = min(costs)
    first = members[costs.index(lowest)]
    if costs.count(lowest) == 1:
        return first
    equals = [m for m, cost in zip(members, costs, strict=True) if cost == lowest]
    return rng.choice(equals)
