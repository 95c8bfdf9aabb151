"""Fragmentation gradient descent: place where the free rest stays most useful.

A task goes where the fragment of the mix grows least, node and device chosen
together (Weng and others, USENIX ATC 2023). As in the published simulator the
growth is compared in steps: points of a hundred on a sigmoid, a point being
some 4 % of a device near zero. Within a step the node that comes first wins,
which packs: compared to the last digit, small tasks take their exact gain on
nodes that are still empty, and an eighth less room is left for large ones.
"""

from collections.abc import Iterator
from math import exp
from typing import NamedTuple, Protocol

from .mix import Mix
from .room import Ask, Room, take, tightest

# Choices kept; those of nodes alike are one.
_KEPT = 65_536
_POINTS = 100


class Choice(NamedTuple):
    """What placing a task on a node costs, and the devices to take there."""

    cost: float  # less is better
    chosen: tuple[int, ...]  # what is free now on each device to take


class Policy(Protocol):
    """How to place a task on a node that fits."""

    def choice(self, room: Room, ask: Ask) -> Choice:
        """Return the best devices of the node, and their cost."""
        ...

    def left(self, room: Room, ask: Ask, chosen: tuple[int, ...]) -> Room:
        """Return what the node has left afterwards."""
        ...


class Fgd:
    """The fragment's growth is the cost, in steps."""

    def __init__(self, mix: Mix) -> None:
        self._mix = mix
        self._choices: dict[object, Choice] = {}

    def choice(self, room: Room, ask: Ask) -> Choice:
        """Return the device that leaves the least fragment; ties: the fullest."""
        mix = self._mix
        key = (
            room.free,
            room.model,
            room.whole,
            mix.enough(room.cpu_milli),
            mix.enough(room.cpu_milli - ask.cpu_milli),
            ask.each,
            ask.devices,
        )
        known = self._choices.get(key)
        if known is None:
            if len(self._choices) >= _KEPT:
                self._choices.clear()
            known = self._choices[key] = min(
                Choice(steps(grown / room.whole), chosen)
                for chosen, grown in growths(mix, room, ask)
            )
        return known

    def left(self, room: Room, ask: Ask, chosen: tuple[int, ...]) -> Room:
        """Return what the node has left afterwards."""
        return take(room, ask, chosen)


def growth(mix: Mix, room: Room, ask: Ask) -> float:
    """Return how much a task adds to the fragment, at best, in units of a device.

    For a node that fits. Below 0 it uses what nobody else could.
    """
    return min(grown for _, grown in growths(mix, room, ask))


def growths(mix: Mix, room: Room, ask: Ask) -> Iterator[tuple[tuple[int, ...], float]]:
    """Return each way to place a task on a node, and what the fragment grows by."""
    before = mix.fragment(room)
    for chosen in _ways(room, ask):
        yield chosen, mix.fragment(take(room, ask, chosen)) - before


def steps(devices: float) -> int:
    """Return a growth, in devices, as points below the best, 0-100."""
    return _POINTS - int(_POINTS / (1 + exp(devices)))


def _ways(room: Room, ask: Ask) -> Iterator[tuple[int, ...]]:
    if ask.devices == 1 and ask.asks_gpu:
        for amount in sorted(set(room.free)):
            if amount >= ask.each:
                yield (amount,)
    else:  # several devices: the fullest of those that have enough
        yield tightest(room, ask)
