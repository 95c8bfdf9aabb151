"""Nodes' boot clocks on ours: for each the least difference seen lately.

A frame can't be from the future, so of the differences between its arrival
and its stamp the least is nearest to the truth: the rest is time on the way.
Only lately, since the two clocks drift apart, and a paused virtual machine's
stands still: two windows in turn forget what is older than both.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

WINDOW_S = 10.0
WINDOW_FRAMES = 5  # at least, for nodes that speak seldom
_BEFORE, _NOW, _UNTIL = range(3)
_UNSEEN = np.array([np.inf, np.inf, -np.inf])


class BootOffsets:
    """Our monotonic clock minus each node's boot clock, in seconds, by row."""

    def __init__(self) -> None:
        self._windows = np.tile(_UNSEEN, (1, 1))

    def begin(self, row: int) -> None:
        """Forget what was seen of a node: a conversation of it begins."""
        held = len(self._windows)
        if row >= held:
            more = max(row + 1 - held, held)
            self._windows = np.vstack([self._windows, np.tile(_UNSEEN, (more, 1))])
        self._windows[row] = _UNSEEN

    def see(
        self, rows: Rows, arrived_at: Floats, differences_s: Floats, interval_s: Floats
    ) -> None:
        """Take the least difference, arrival − stamp, of each of these nodes.

        A row may stand here once only.
        """
        windows = self._windows[rows]
        over = arrived_at >= windows[:, _UNTIL]
        turned = windows[over]
        turned[:, _BEFORE] = turned[:, _NOW]
        turned[:, _NOW] = np.inf
        turned[:, _UNTIL] = arrived_at[over] + np.maximum(
            WINDOW_S, WINDOW_FRAMES * interval_s[over]
        )
        windows[over] = turned
        windows[:, _NOW] = np.minimum(windows[:, _NOW], differences_s)
        self._windows[rows] = windows

    def seconds(self, rows: Rows) -> Floats:
        """Return the differences; infinite before anything was seen."""
        windows = self._windows[rows]
        least: Floats = np.minimum(windows[:, _BEFORE], windows[:, _NOW])
        return least
