"""A counter that rises: its growth over the last minute.

Error counters are history since the driver was loaded; only their growth tells
of now. A counter that went back was reset and starts anew.
"""

from collections import deque
from typing import NamedTuple

WINDOW_S = 60.0


class Growth(NamedTuple):
    """By how much a counter grew, over how long."""

    errors: int
    over_s: float

    @property
    def per_s(self) -> float:
        """The rate; 0 before any time has passed."""
        return self.errors / self.over_s if self.over_s > 0 else 0.0


class Rising:
    """One counter over the window. A value of None is skipped."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, now_s: float, value: int | None) -> Growth | None:
        """Take the counter's value; None until there is a difference."""
        seen = self._seen
        if value is not None:
            if seen and value < seen[-1][1]:
                seen.clear()
            seen.append((now_s, value))
        # The youngest value older than the window stays: growth is over it.
        while len(seen) > 1 and seen[1][0] <= now_s - WINDOW_S:
            seen.popleft()
        if len(seen) < 2:
            return None
        return Growth(seen[-1][1] - seen[0][1], now_s - seen[0][0])
