"""How slow a node is: time served over the time that the work should take.

Slowness 1 is a nominal node. It comes from outcomes, since reports are late:
a fast window of 1 s that leans on a slow one of 30 s, which leans on what is
expected of a node of its speed. A node that nobody uses so returns to what is
expected of it, and one that stalls is seen after a few answers.
"""

from math import exp

FAST_S = 1.0
SLOW_S = 30.0
# Outcomes that the next slower belief counts for, found by simulation.
LEAN_FAST = 5.0
LEAN_SLOW = 10.0


class Service:
    """The outcomes of one node, forgotten by age. Times in seconds."""

    __slots__ = ("_at", "_count", "_fast_count", "_fast_sum", "_sum")

    def __init__(self) -> None:
        self._at = 0.0
        self._sum = self._count = 0.0
        self._fast_sum = self._fast_count = 0.0

    def note(self, slowness: float, now: float) -> None:
        """Take one outcome; one that comes late counts as of the newest."""
        elapsed = now - self._at
        if elapsed > 0:
            fade = exp(-elapsed / FAST_S)
            self._fast_sum *= fade
            self._fast_count *= fade
            fade = exp(-elapsed / SLOW_S)
            self._sum *= fade
            self._count *= fade
            self._at = now
        self._fast_sum += slowness
        self._fast_count += 1.0
        self._sum += slowness
        self._count += 1.0

    def slowness(self, expected: float, now: float) -> float:
        """Return the slowness to count on; `expected` is of a node unheard of."""
        slow = (self._sum + LEAN_SLOW * expected) / (self._count + LEAN_SLOW)
        fade = exp(-max(0.0, now - self._at) / FAST_S)
        return (fade * self._fast_sum + LEAN_FAST * slow) / (
            fade * self._fast_count + LEAN_FAST
        )
