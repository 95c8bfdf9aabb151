"""Peers that load a model wherever a task of it is sent."""

import hashlib

from .cache import Cache, Replica
from .load import LOAD_S, MODELS, NODES, PLACES, SERVICE_S, SLOTS, Load, Task

UNEVEN = (32, 1.5)  # SGLang's router: difference and ratio of loads
BOUND = 1.25  # Mirrokni, Thorup, Zadimoghaddam 2018


class Blind:
    """The node with the fewest tasks; the others differ in the order of nodes."""

    every_s: float | None = None

    def __init__(self, load: Load) -> None:
        self._ring = [_ring(model) for model in range(MODELS)]
        self._rates = load.base

    def tick(self, cache: Cache) -> None:
        """Nothing is planned."""

    def pick(self, cache: Cache, task: Task) -> Replica | None:
        """Return the replica on the first node that can have one; None: no node can."""
        for node in self.order(cache, task.model):
            held = cache.nodes[node].get(task.model)
            if held is not None:
                return held
            if len(cache.nodes[node]) < PLACES:
                return cache.load(node, task.model, None)
            ready = [one for one in cache.nodes[node].values() if one.ready]
            if ready:
                oldest = min(ready, key=lambda one: one.used_s)
                return cache.load(node, task.model, oldest.model)
        return None  # everything is loading

    def order(self, cache: Cache, _model: int) -> list[int]:
        """Return the nodes, the wanted ones first: the fewest tasks."""
        return sorted(range(NODES), key=cache.tasks.__getitem__)


class HashBounded(Blind):
    """The next node on the ring that has at most BOUND times the mean."""

    def order(self, cache: Cache, model: int) -> list[int]:
        """Return the nodes, the wanted ones first."""
        tasks = cache.tasks
        limit = BOUND * (sum(tasks) + 1) / NODES
        ring = self._ring[model]
        return sorted(ring, key=lambda node: tasks[node] + 1 > limit)


class CacheAware(Blind):
    """A holder with the fewest tasks, unless loads are too uneven."""

    def order(self, cache: Cache, model: int) -> list[int]:
        """Return the nodes, the wanted ones first."""
        tasks = cache.tasks
        most, least = max(tasks), min(tasks)
        uneven = most - least > UNEVEN[0] and most > UNEVEN[1] * least
        if uneven:
            return sorted(range(NODES), key=tasks.__getitem__)
        return sorted(
            range(NODES), key=lambda n: (model not in cache.nodes[n], tasks[n])
        )


class Myopic(Blind):
    """The least expected wait, with the load and what it does to the evicted."""

    def order(self, cache: Cache, model: int) -> list[int]:
        """Return the nodes, the wanted ones first."""
        return sorted(range(NODES), key=lambda n: self._cost_s(cache, n, model))

    def _cost_s(self, cache: Cache, node: int, model: int) -> float:
        held = cache.nodes[node].get(model)
        if held is not None:
            wait_s = held.tasks * SERVICE_S / SLOTS
            return wait_s if held.ready else LOAD_S + wait_s
        ready = [one for one in cache.nodes[node].values() if one.ready]
        if not ready:
            return 3 * LOAD_S
        oldest = min(ready, key=lambda one: one.used_s)
        others = len(cache.of[oldest.model])
        return LOAD_S + self._rates[oldest.model] / others * LOAD_S


def _ring(model: int) -> list[int]:
    def place(node: int) -> bytes:
        return hashlib.blake2b(f"{model}/{node}".encode()).digest()

    return sorted(range(NODES), key=place)
