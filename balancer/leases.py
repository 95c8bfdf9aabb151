"""The ledger of leases: work sent to a node and not yet heard back from.

A decision opens a lease before it is returned, so that picks a microsecond
apart see each other. An outcome closes it, or its expiry does: nothing that a
caller forgets stays counted. Expiry is a heap with lazy deletion, rebuilt
when closed leases outnumber the open ones: amortised O(log n) each.

For each node the ledger also keeps the mean in flight over the last seconds:
the part of a node's reading that is our own work (pick.py).
"""

from heapq import heapify, heappop, heappush
from math import expm1
from typing import NamedTuple

# About what a reading looks back over: an interval of 1 s, and its way here.
MEAN_S = 2.0
_IDLE = 0.001  # of a task in the mean; not worth keeping an entry for
_SLACK = 64  # closed leases that the heap may hold beside as many as open


class Lease(NamedTuple):
    """One piece of work on one node."""

    node: str
    opened_at: float
    expires_at: float


class Load(NamedTuple):
    """What we have on a node."""

    in_flight: int  # open leases now
    mean: float  # in flight, exponential mean over MEAN_S


_NOTHING = Load(0, 0.0)


class _Running:
    """The count of a node, and its mean up to the last change."""

    __slots__ = ("at", "count", "mean")

    def __init__(self, now: float) -> None:
        self.count = 0
        self.mean = 0.0
        self.at = now

    def mean_at(self, now: float) -> float:
        elapsed = now - self.at
        if elapsed <= 0:
            return self.mean
        return self.mean - (self.count - self.mean) * expm1(-elapsed / MEAN_S)

    def step(self, change: int, now: float) -> None:
        self.mean = self.mean_at(now)
        self.at = max(self.at, now)
        self.count += change


class Ledger:
    """Open leases by id; at most `limit`, past which the next to expire goes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[str, Lease] = {}
        self._expiries: list[tuple[float, str]] = []
        self._nodes: dict[str, _Running] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, ident: str, node: str, now: float, ttl_s: float) -> Lease:
        """Count a piece of work on a node from now on; a ValueError if open."""
        if ident in self._open:
            raise ValueError(f"lease {ident} is open already")
        while len(self._open) >= self._limit:
            _, first = heappop(self._expiries)
            self.close(first, now)
        lease = Lease(node, now, now + ttl_s)
        self._open[ident] = lease
        heappush(self._expiries, (lease.expires_at, ident))
        running = self._nodes.get(node)
        if running is None:
            running = self._nodes[node] = _Running(now)
        running.step(1, now)
        return lease

    def close(self, ident: str, now: float) -> Lease | None:
        """Count it no longer; None if no such lease is open."""
        lease = self._open.pop(ident, None)
        if lease is None:
            return None
        self._nodes[lease.node].step(-1, now)
        if len(self._expiries) > 2 * len(self._open) + _SLACK:
            self._expiries = [(o.expires_at, i) for i, o in self._open.items()]
            heapify(self._expiries)
        return lease

    def expire(self, now: float) -> int:
        """Close what is past its time, and return how many that were."""
        closed = 0
        while self._expiries and self._expiries[0][0] <= now:
            _, ident = heappop(self._expiries)
            lease = self._open.get(ident)
            if lease is not None and lease.expires_at <= now:
                self.close(ident, now)
                closed += 1
        return closed

    def load(self, node: str, now: float) -> Load:
        """Return what is in flight on a node, and its recent mean."""
        running = self._nodes.get(node)
        if running is None:
            return _NOTHING
        return Load(running.count, running.mean_at(now))

    def forget_idle(self, now: float) -> None:
        """Drop the entries of nodes that have had nothing for a while."""
        idle = [
            node
            for node, running in self._nodes.items()
            if running.count == 0 and running.mean_at(now) < _IDLE
        ]
        for node in idle:
            del self._nodes[node]
