"""What a node is believed to hold: blocks in order of last use, never too many.

A request names its blocks in order, and work is saved for as many as are found
from the first one on. The node itself drops what was used longest ago, so the
belief does too, at the same size; and a bounded belief is a bounded memory.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence


class Blocks:
    """The blocks of one node, the longest unused first."""

    __slots__ = ("_kept", "limit")

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"a limit of 1 block or more expected, got {limit}")
        self.limit = limit
        self._kept: OrderedDict[Hashable, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def leading(self, keys: Sequence[Hashable]) -> int:
        """Return how many of these are here, from the first on without a gap."""
        for place, key in enumerate(keys):
            if key not in self._kept:
                return place
        return len(keys)

    def touch(self, keys: Sequence[Hashable]) -> int:
        """Note that a request used these; return how many others went for it."""
        kept = self._kept
        # The first block last, so that a chain loses its end before its head.
        for key in reversed(keys[: self.limit]):
            kept[key] = None
            kept.move_to_end(key)
        dropped = max(0, len(kept) - self.limit)
        for _ in range(dropped):
            kept.popitem(last=False)
        return dropped

    def forget(self) -> None:
        """Take the node for empty: it started anew."""
        self._kept.clear()
