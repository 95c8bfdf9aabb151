"""What a task asks of GPUs, and what a node has left of them.

Amounts on a device are whole numbers of one unit all over a fleet: MiB of its
memory, or thousandths of its time. A MIG instance is a device of its own, its
profile is the model, and it is asked for whole: that way no task is promised a
slice that would first have to be cut, and no other code has to know of MIG.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple


class Ask(NamedTuple):
    """What one task wants of one node. 0 devices: a task without GPU."""

    cpu_milli: int = 0
    memory_mib: int = 0  # of the host
    devices: int = 0
    each: int = 0  # on each of these devices
    models: tuple[str, ...] = ()  # any of these; empty: whatever there is

    @property
    def asks_gpu(self) -> bool:
        """Whether it needs a device at all."""
        return self.devices > 0 and self.each > 0


class Room(NamedTuple):
    """What is free on one node."""

    cpu_milli: int
    memory_mib: int  # of the host
    free: tuple[int, ...]  # on each device, ascending
    model: str = ""  # of its devices, which are alike
    whole: int = 1000  # one device when nothing is on it
    note: str = ""  # a policy's own, of what runs there


def fits(room: Room, ask: Ask) -> bool:
    """Say whether the node can take the task now."""
    return (
        room.cpu_milli >= ask.cpu_milli
        and room.memory_mib >= ask.memory_mib
        and (not ask.asks_gpu or hosts(room.free, room.model, ask))
    )


def hosts(free: Sequence[int], model: str, ask: Ask) -> bool:
    """Say whether devices of this model, free ascending, can take the task."""
    if ask.models and model not in ask.models:
        return False
    return len(free) >= ask.devices and free[-ask.devices] >= ask.each


def tightest(room: Room, ask: Ask) -> tuple[int, ...]:
    """Return what is free now on the devices that would be left with least.

    For a node that fits.
    """
    start = bisect_left(room.free, ask.each)
    return room.free[start : start + ask.devices] if ask.asks_gpu else ()


def take(room: Room, ask: Ask, chosen: Sequence[int]) -> Room:
    """Return what is left once the task is on devices with this much free.

    ValueError if no device has exactly that free, or the node would be overdrawn.
    """
    free = list(room.free)
    for before in chosen:
        free.remove(before)
        free.append(before - ask.each)
    left = room._replace(
        cpu_milli=room.cpu_milli - ask.cpu_milli,
        memory_mib=room.memory_mib - ask.memory_mib,
        free=tuple(sorted(free)),
    )
    if left.cpu_milli < 0 or left.memory_mib < 0 or (free and left.free[0] < 0):
        raise ValueError(f"a task that fits expected, got {ask} for {room}")
    return left


def stranding(free: Sequence[int], whole: int) -> float | None:
    """Return the share of free memory that one large task can't use, 0.0-1.0.

    1 − max f / min(Σf, whole device): an empty node of eight devices strands
    nothing. None when nothing is free.
    """
    total = sum(free)
    return 1 - max(free) / min(total, whole) if total else None
