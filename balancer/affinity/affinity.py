"""Route by what nodes hold, inside the window of those with little to do.

Kept here, a node: the blocks it is believed to hold and the work sent to it
lately. A node seen for the first time starts with the median of that work: it
is neither idle nor full, and as the rest of the fleet goes on, its turn comes.
"""

from collections.abc import Collection, Hashable, Sequence
from statistics import median
from typing import NamedTuple

from .blocks import Blocks
from .near import Option, nearest
from .recent import RecentWork

# Blocks believed of a node, at some 100 bytes each.
BLOCKS = 5_000


class Destination(NamedTuple):
    """Where a task should go, and why."""

    node: str
    found: int  # leading blocks that it holds
    load: float  # work sent there lately
    least: float  # the same, of the node with least


class _Known:
    __slots__ = ("blocks", "work")

    def __init__(self, blocks: Blocks, work: RecentWork) -> None:
        self.blocks = blocks
        self.work = work


class Affinity:
    """What every node is believed to hold, and how busy it was kept."""

    def __init__(self, blocks: int = BLOCKS) -> None:
        self._limit = blocks
        self._nodes: dict[str, _Known] = {}

    def choose(
        self,
        nodes: Sequence[str],
        keys: Sequence[Hashable],
        block_work: float,
        rest_work: float,
        now: float,
    ) -> Destination:
        """Return where to send a task, among nodes that can run it.

        `block_work` is saved for each block found, `rest_work` is done anywhere.
        """
        known = self._known(nodes, now)
        found = [each.blocks.leading(keys) for each in known]
        loads = [each.work.at(now) for each in known]
        options = [
            Option(load, (len(keys) - count) * block_work)
            for load, count in zip(loads, found, strict=True)
        ]
        place = nearest(options, len(keys) * block_work + rest_work)
        return Destination(nodes[place], found[place], loads[place], min(loads))

    def sent(
        self, node: str, keys: Sequence[Hashable], work: float, now: float
    ) -> None:
        """Note that a task went to a node, and the work that it is there."""
        (known,) = self._known([node], now)
        known.blocks.touch(keys)
        known.work.add(work, now)

    def restarted(self, node: str) -> None:
        """Note that a node lost what it held."""
        if node in self._nodes:
            self._nodes[node].blocks.forget()

    def keep(self, nodes: Collection[str]) -> None:
        """Forget all nodes but these."""
        self._nodes = {n: known for n, known in self._nodes.items() if n in nodes}

    def _known(self, nodes: Sequence[str], now: float) -> list[_Known]:
        new = [node for node in nodes if node not in self._nodes]
        if new:
            loads = [known.work.at(now) for known in self._nodes.values()]
            start = median(loads) if loads else 0.0
            for node in new:
                work = RecentWork(now, start)
                self._nodes[node] = _Known(Blocks(self._limit), work)
        return [self._nodes[node] for node in nodes]
