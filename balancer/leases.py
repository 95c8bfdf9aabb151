"""The ledger of leases: work sent to a node and not yet heard back from.

A decision opens a lease before it is returned, so that picks a microsecond
apart see each other. An outcome closes it, or its expiry does: nothing that a
caller forgets stays counted. Leases that end within the same second share a
list, so a lease costs one entry there and lasts up to a second longer. Lists
of mostly closed leases are made anew: what is kept is bounded by what is open.
"""

from heapq import heappop, heappush
from math import ceil, inf
from typing import NamedTuple

from .seat import Seat

_SLACK = 64  # closed leases that may be listed, beside twice as many as open


class Lease(NamedTuple):
    """One piece of work on one node."""

    seat: Seat
    labelled_ms: float  # its work by its label, on a nominal node
    work_ms: float  # and as expected when it was opened
    second: int  # when it ends by itself


class Ledger:
    """Open leases by id; at most `limit`, past which the next to expire goes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[str, Lease] = {}
        self._seconds: dict[int, list[str]] = {}
        self._order: list[int] = []  # a heap of those seconds
        self._listed = 0
        self.next_due = inf  # when `due` may find something

    def __len__(self) -> int:
        return len(self._open)

    def open(
        self, ident: str, seat: Seat, labelled_ms: float, work_ms: float, ends_at: float
    ) -> Lease | None:
        """Keep a piece of work; return the one that had to go for it, if any.

        ValueError if it is open already.
        """
        if ident in self._open:
            raise ValueError(f"lease {ident} is open already")
        gone = self._first() if len(self._open) >= self._limit else None
        second = ceil(ends_at)
        self._open[ident] = Lease(seat, labelled_ms, work_ms, second)
        self._list(ident, second)
        return gone

    def close(self, ident: str) -> Lease | None:
        """Return the lease, which is open no longer; None if it was not."""
        lease = self._open.pop(ident, None)
        if lease is not None and self._listed > 2 * len(self._open) + _SLACK:
            self._list_anew()
        return lease

    def due(self, now: float) -> list[Lease]:
        """Return the leases past their time, which are open no longer."""
        found: list[Lease] = []
        while self.next_due <= now:
            listed = self._seconds.pop(heappop(self._order))
            self._listed -= len(listed)
            self.next_due = self._order[0] if self._order else inf
            ended = (self._open.pop(ident, None) for ident in listed)
            found += [lease for lease in ended if lease is not None]
        return found

    def _first(self) -> Lease | None:
        while self._order:
            listed = self._seconds[self._order[0]]
            while listed:
                self._listed -= 1
                lease = self._open.pop(listed.pop(), None)
                if lease is not None:
                    return lease
            del self._seconds[heappop(self._order)]
            self.next_due = self._order[0] if self._order else inf
        return None

    def _list(self, ident: str, second: int) -> None:
        listed = self._seconds.get(second)
        if listed is None:
            self._seconds[second] = [ident]
            heappush(self._order, second)
            self.next_due = self._order[0]
        else:
            listed.append(ident)
        self._listed += 1

    def _list_anew(self) -> None:
        self._seconds.clear()
        self._order.clear()
        self._listed = 0
        self.next_due = inf
        for ident, lease in self._open.items():
            self._list(ident, lease.second)
