"""What a task waits for data or a model that a node may not hold yet.

    loaded:   0
    loading:  what remains of it
    neither:  loads queued there + its own load + what is lost by evictions

An item that has to go costs its load time by the chance that it is asked for
again soon: 1 − e^(−rate · 60 s). So a node with free memory comes before one
that must evict, and one that would evict what nobody asks for before one that
would lose what is in use. A node that can't ever hold it has no wait: None.
Nodes that hold it, or soon will, are the only ones looked at while there is
one: loading on demand wherever it looks cheap ends in loading all the time.
"""

from collections.abc import Mapping, Sequence
from math import exp, inf
from typing import NamedTuple

# How far ahead an eviction is regretted.
AHEAD_S = 60.0


class Item(NamedTuple):
    """A model or a data set."""

    mib: float
    load_ms: float  # time to load it, on a node that does nothing else
    rate_per_s: float = 0.0  # how often it is asked for on the fleet, lately


class Shelf(NamedTuple):
    """What one node holds."""

    capacity_mib: float
    loaded: Sequence[str] = ()  # the longest unused first
    loading: Mapping[str, float] = {}  # time to go, ms, counted from now
    pinned: frozenset[str] = frozenset()  # in use: can't go


def wait_ms(name: str, shelf: Shelf, items: Mapping[str, Item]) -> float | None:
    """Return what a task that needs this item waits and costs others, in ms.

    None: it does not fit on the node, whatever goes. KeyError for an item that
    nobody described.
    """
    if name in shelf.loaded:
        return 0.0
    if name in shelf.loading:
        return shelf.loading[name]
    lost = eviction_ms(name, shelf, items)
    if lost == inf:
        return None
    queued = max(shelf.loading.values(), default=0.0)
    return queued + items[name].load_ms + lost


def waits_ms(
    name: str, shelves: Sequence[Shelf], items: Mapping[str, Item]
) -> list[float | None]:
    """Return each node's wait; None where it is not to go.

    With a node that holds the item or loads it, all others are None.
    """
    waits = [wait_ms(name, shelf, items) for shelf in shelves]
    there = [name in shelf.loaded or name in shelf.loading for shelf in shelves]
    if not any(there):
        return waits
    return [wait if at else None for wait, at in zip(waits, there, strict=True)]


def eviction_ms(name: str, shelf: Shelf, items: Mapping[str, Item]) -> float:
    """Return what the items that must go for this one cost; inf: never fits."""
    held = (*shelf.loaded, *shelf.loading)
    short = sum(items[other].mib for other in held)
    short += items[name].mib - shelf.capacity_mib
    lost = 0.0
    for other in shelf.loaded:
        if short <= 0:
            break
        if other not in shelf.pinned:
            short -= items[other].mib
            lost += regret_ms(items[other])
    return lost if short <= 0 else inf


def regret_ms(item: Item) -> float:
    """Return what it costs to let an item go."""
    return item.load_ms * (1 - exp(-item.rate_per_s * AHEAD_S))
