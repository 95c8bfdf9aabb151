"""A node's boot clock on ours: the least difference seen lately.

A frame can't be from the future, so of the differences between its arrival
and its stamp the least is nearest to the truth: the rest is time on the way.
Only lately, since the two clocks drift apart, and a paused virtual machine's
stands still: two windows in turn forget what is older than both.
"""

import math

WINDOW_S = 10.0
WINDOW_FRAMES = 5  # at least, for nodes that speak seldom


class BootOffset:
    """Our monotonic clock minus the node's boot clock, in seconds."""

    def __init__(self) -> None:
        self._before = math.inf
        self._now = math.inf
        self._until = -math.inf

    def see(self, arrived_at: float, boot_s: float, interval_s: float) -> None:
        """Take a stamp that was made just before it arrived."""
        if arrived_at >= self._until:
            self._before, self._now = self._now, math.inf
            self._until = arrived_at + max(WINDOW_S, WINDOW_FRAMES * interval_s)
        self._now = min(self._now, arrived_at - boot_s)

    @property
    def seconds(self) -> float:
        """The difference; infinite before anything was seen."""
        return min(self._before, self._now)
