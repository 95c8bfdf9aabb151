"""Sticky keys: work that belongs together goes to one node while it can.

A key is kept from its last use; past the limit the one not used for longest
goes. Where its node may not be picked any more the key moves. A draining node
keeps its keys and gets no new ones, until its deadline makes it drained.
"""

from collections import OrderedDict


class Sticky:
    """The node of each key."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._nodes: OrderedDict[str, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, key: str) -> str | None:
        """Return the id of the node that a key went to; None: not known."""
        return self._nodes.get(key)

    def keep(self, key: str, node: str) -> None:
        """Note where a key goes."""
        self._nodes[key] = node
        self._nodes.move_to_end(key)
        if len(self._nodes) > self._limit:
            self._nodes.popitem(last=False)
