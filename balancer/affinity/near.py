"""The near-minimum window: affinity decides among nodes that are not busy.

    near   = load ≤ least load + max(0.75 · mean load, 4 · the task's own work)
    picked = of those near, the least work missing; of equals, the least load

Load comes before what is cached, so a prefix that everybody shares can't draw
everybody to one node, and a miss goes to the least loaded node, never to the
emptiest cache. Within the window the cache is kept whole: a shift of load moves
few tasks, not all of them. A load that is not known is the median of the known
ones: not known is not idle.
"""

from collections.abc import Sequence
from statistics import fmean, median
from typing import NamedTuple

# On the recorded hour of a chat service 0.5 to 1 did equally well; above 1 the
# busiest node had a third more than the mean.
SHARE = 0.75
# Ahead by so many tasks is no imbalance: else a quiet fleet had no affinity.
TASKS = 4.0


class Option(NamedTuple):
    """One node; both in one unit of work, such as ms or tokens."""

    load: float | None  # None: not known
    missing: float  # what the task costs there, above what it costs anyway


def known(loads: Sequence[float | None]) -> list[float]:
    """Return the loads, with the median in place of those not known; else 0."""
    read = [load for load in loads if load is not None]
    middle = median(read) if read else 0.0
    return [middle if load is None else load for load in loads]


def window(loads: Sequence[float], task: float) -> float:
    """Return the most load that is still near the least."""
    return min(loads) + max(SHARE * fmean(loads), TASKS * task)


def nearest(options: Sequence[Option], task: float) -> int:
    """Return the option to take, by place; the first of equals.

    `task` is the task's work where nothing is cached. ValueError without options.
    """
    if not options:
        raise ValueError("at least one node expected, got none")
    loads = known([option.load for option in options])
    limit = window(loads, task)
    near = (place for place, load in enumerate(loads) if load <= limit)
    return min(near, key=lambda place: (options[place].missing, loads[place]))
