"""How often a node is drawn: its service rate, sized by the room it has left.

    weight = slots / slowness · max(0.02, trusted headroom) · ramp

The headroom is the least of the dimensions that the task needs, faded towards
"half full" as its reading ages. Nothing here ranks a single pick: that needs
the work in flight (cost.py), since readings are always a little old.
"""

from collections.abc import Iterable
from math import exp
from statistics import median
from typing import NamedTuple

# A reading this old is worth 1/e of a fresh one.
TRUST_S = 30.0
# What is believed of a node once its reading has faded, and of a fleet in
# which nothing was read.
PRIOR = 0.5
# The least headroom a weight is made from. Zero would starve a node that
# recovers, and peers that take our weights refuse 0.
FLOOR = 0.02


class Headroom(NamedTuple):
    """The least headroom, and the dimension that sets it."""

    room: float  # 0.0 at or past the knee, 1.0 idle
    limiting: str


def headroom(
    cpu: float | None, memory: float | None, network: float | None
) -> Headroom | None:
    """Return the least headroom of those read; None: none is."""
    least = None
    if cpu is not None:
        least = Headroom(cpu, "cpu")
    if memory is not None and (least is None or memory < least.room):
        least = Headroom(memory, "memory")
    if network is not None and (least is None or network < least.room):
        least = Headroom(network, "network")
    return least


def faded(room: float, age_s: float) -> float:
    """Return the headroom to believe of a reading of this age, 0.0-1.0."""
    return PRIOR + (room - PRIOR) * exp(-max(0.0, age_s) / TRUST_S)


def middle(rooms: Iterable[float | None], unread: float) -> float:
    """Return the median of those read: what an unread node counts as."""
    known = [room for room in rooms if room is not None]
    return median(known) if known else unread


def capacity(slots: int, speed: float) -> float:
    """Return tasks served at once, in units of a nominal node's slot."""
    return slots * speed


def weight(slots: int, slowness: float, room: float, ramp: float) -> float:
    """Return how often to draw a node, relative to others; 0 without slots."""
    return slots / slowness * max(FLOOR, room) * ramp
