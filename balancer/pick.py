"""The pick: a few weighted draws, and the least cost among them wins.

    cost = rtt + service / speed · (1 + 1.5 u³)
    u    = (others + in flight + 1) / slots
    others = max(0, slots · (1 - headroom) - our own recent mean in flight)

The power of several choices (Mitzenmacher, TPDS 2000) with draws by weight,
and a convex cost, so that a queue costs more the longer it is. Ranking by an
old reading herds everyone to yesterday's idle node, hence what we sent and
have not heard back from is counted as of now. A reading adds only what that
work does not explain: the load of others. So a burst spreads between two
reports, and our own load is not counted twice (which would swing: send less,
read idle, send more). Fleets up to `full_scan` are compared whole.
"""

from bisect import bisect
from collections.abc import Sequence
from random import Random

from .leases import Load
from .settings import Settings

# A queue term that is nearly flat while slots are free, then steep. The best
# of those tried in simulation.
QUEUE_GAIN = 1.5
QUEUE_POWER = 3
# An answer names two nodes beside the first, so as many are looked at.
_LEAST = 3


def draw(cumulative: Sequence[float], rng: Random) -> int:
    """Return a position, each with probability weight / sum of weights."""
    # The product can round up to the total, hence the bound.
    return bisect(cumulative, rng.random() * cumulative[-1], 0, len(cumulative) - 1)


def candidates(
    cumulative: Sequence[float], rng: Random, settings: Settings
) -> Sequence[int]:
    """Return distinct positions to compare, at least 3 if there are as many."""
    size = len(cumulative)
    if size <= max(settings.full_scan, _LEAST):
        return range(size)
    drawn = dict.fromkeys(draw(cumulative, rng) for _ in range(settings.draws))
    if len(drawn) < _LEAST:  # few nodes hold nearly all the weight
        start = rng.randrange(size)
        for step in range(_LEAST):
            drawn.setdefault((start + step) % size)
    return list(drawn)


def others(slots: int, room: float, load: Load) -> float:
    """Return the slots that a reading shows busy and our own work leaves open."""
    return max(0.0, slots * (1 - room) - load.mean)


def cost_ms(
    rtt_ms: float, service_ms: float, speed: float, slots: int, busy: float
) -> float:
    """Return the expected time to an answer, with `busy` slots taken already."""
    queue = ((busy + 1) / slots) ** QUEUE_POWER
    return rtt_ms + service_ms / speed * (1 + QUEUE_GAIN * queue)


def ranked(costs: Sequence[float], rng: Random) -> list[int]:
    """Return the order of costs, least first; the first by chance among equals."""
    order = sorted(range(len(costs)), key=costs.__getitem__)
    equals = 1
    while equals < len(order) and costs[order[equals]] == costs[order[0]]:
        equals += 1
    if equals > 1:
        chosen = rng.randrange(equals)
        order[0], order[chosen] = order[chosen], order[0]
    return order
