"""What a plan is made from: who holds what, and what will be asked for.

A data item is a model, an index, a cache shard: something a node has or must
load before it serves a task on it. A replica is an item on a node.
"""

from typing import NamedTuple


class Holder(NamedTuple):
    """A node that holds items."""

    name: str
    places: int  # items it can hold at once
    holds: frozenset[str] = frozenset()
    loading: frozenset[str] = frozenset()  # on their way; each takes a place
    groups: frozenset[str] = frozenset()  # of shared risk: rack, power, operator
    usable: bool = True  # draining, drained, lost: no. Its replicas count for nothing

    @property
    def free(self) -> int:
        """The places left."""
        return self.places - len(self.holds | self.loading)


class Item(NamedTuple):
    """A data item and its demand."""

    name: str
    load_s: float  # from the order to the first task served
    service_s: float  # of a task, mean
    slots: int  # tasks that one replica serves at once
    # Tasks a second in each coming step, as foreseen. None: not known, so the item
    # is neither loaded nor evicted.
    rates: tuple[float, ...] | None


class Fleet(NamedTuple):
    """All of it at one time."""

    now: float
    step_s: float  # of the items' rates
    holders: tuple[Holder, ...]
    items: tuple[Item, ...]
