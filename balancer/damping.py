"""Weights for proxies that pick themselves: the same facts, made calm.

A proxy spreads by weights for seconds, so a weight that follows every wobble
does harm. A level moves in steps of 5 points, not at all for less than 10, at
most 20 points a second down and 10 up. What is taken out, by an ejection or an
operator, is out at once. Who is silent keeps the last level: our agent's
absence is no proof of the node's, and proxies check for themselves.
"""

from collections.abc import Mapping
from math import ceil

QUANTUM = 5  # points of a hundred
DEADBAND = 10
DOWN_PER_S = 20.0
UP_PER_S = 10.0
# A level that was still may move this far at once, so as not to lag its rate.
_SAVED_S = 1.0
_BACK = 10  # where a node that was out begins


class _Level:
    __slots__ = ("at", "saved_s", "value")

    def __init__(self, value: int, at: float) -> None:
        self.value = value
        self.at = at
        self.saved_s = 0.0


class Damper:
    """The levels that one proxy was told."""

    def __init__(self) -> None:
        self._levels: dict[str, _Level] = {}

    def emit(self, wanted: Mapping[str, float | None], now: float) -> dict[str, int]:
        """Return the level of each node, 5-100, or 0 for who gets nothing new.

        `wanted` is 0.0-1.0 of a node's nominal weight; 0 takes it out, None says
        nothing of it. A node without any level so far begins at 100 then.
        """
        for node in self._levels.keys() - wanted.keys():
            del self._levels[node]
        return {node: self._step(node, want, now) for node, want in wanted.items()}

    def _step(self, node: str, want: float | None, now: float) -> int:
        level = self._levels.get(node)
        if level is None:
            first = 100 if want is None else _quantised(100 * want)
            level = self._levels[node] = _Level(first, now)
            return level.value
        level.saved_s = min(_SAVED_S, level.saved_s + max(0.0, now - level.at))
        level.at = max(level.at, now)
        if want is None:
            return level.value
        target = _quantised(100 * want)
        if target == 0 or level.value == 0:
            level.value = min(target, _BACK)
            level.saved_s = 0.0
            return level.value
        off = target - level.value
        if abs(off) >= DEADBAND:
            rate = UP_PER_S if off > 0 else DOWN_PER_S
            steps = min(abs(off), int(rate * level.saved_s)) // QUANTUM
            moved = QUANTUM * steps
            level.value += moved if off > 0 else -moved
            level.saved_s -= moved / rate
        return level.value


def _quantised(points: float) -> int:
    """Return the step at or above; 0 only for nothing at all."""
    return min(100, QUANTUM * ceil(points / QUANTUM)) if points > 0 else 0
