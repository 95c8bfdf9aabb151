"""How often a node is drawn: its capacity, sized by the room it has left.

    weight = slots · speed · max(0.02, trusted headroom)

The headroom is the least of the dimensions that the task needs, faded towards
"half full" as its reading ages. Nothing here ranks a single pick: that needs
the work in flight (pick.py), since readings are always a little old.
"""

from collections.abc import Iterable
from math import exp
from statistics import median
from typing import NamedTuple

# A reading this old is worth 1/e of a fresh one.
TRUST_S = 30.0
# What is believed of a node once its reading has faded, and of a pool in
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
    cpu: float | None,
    memory: float | None,
    network: float | None,
    gpu: float | None,
    *,
    asks_gpu: bool,
) -> Headroom | None:
    """Return the least headroom that counts for a task; None: not known.

    Of cpu, memory and network those read count. The GPU counts for a task
    that asks for one, and unread it leaves the whole unknown.
    """
    if asks_gpu and gpu is None:
        return None
    named = (
        ("cpu", cpu),
        ("memory", memory),
        ("network", network),
        ("gpu", gpu if asks_gpu else None),
    )
    return min(
        (Headroom(room, name) for name, room in named if room is not None),
        default=None,
    )


def faded(room: float, age_s: float) -> float:
    """Return the headroom to believe of a reading of this age, 0.0-1.0."""
    return PRIOR + (room - PRIOR) * exp(-max(0.0, age_s) / TRUST_S)


def middle(rooms: Iterable[float | None]) -> float:
    """Return the pool's median headroom: what an unmeasured node counts as."""
    known = [room for room in rooms if room is not None]
    return median(known) if known else PRIOR


def capacity(slots: int, speed: float) -> float:
    """Return tasks served at once, in units of a nominal node's slot."""
    return slots * speed


def weight(capacity: float, room: float) -> float:
    """Return how often to draw a node, relative to others; above 0."""
    return capacity * max(FLOOR, room)
