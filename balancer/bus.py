"""What balancers tell each other, and what they make of it: plain data.

Each balancer says, at most every 10 ms, what it sent and what came back, and
once a second that it lives. The board adds that up: for each node the work in
flight of all balancers, its slowness, failures and silence. Whoever carries a
share from one process to the other gives it to every board, the sender's too:
so all hold the same.

Shares are numbered. After a gap the sums may be wrong, and `apply` says so:
then ask that balancer for one that is `whole`. What a balancer has in flight
is forgotten when it has said nothing for 5 s, so nothing leaks with it.
"""

from collections.abc import Iterable
from math import inf
from typing import NamedTuple, Protocol

from .ejection import FAILURES, Standing, within_bound
from .service import Service

FLUSH_S = 0.01
ALIVE_S = 1.0  # a balancer without news says so
GONE_S = 5.0
_ROUNDING = 1e-9  # of pull, left where work came and went


class Moved(NamedTuple):
    """Work that a balancer has more or less of on a node."""

    node: str
    tasks: int
    pull: float  # the sum of 1 / work over them, per ms


class Ended(NamedTuple):
    """A task that ended on a node."""

    node: str
    ok: bool
    slowness: float | None  # None: the time served was not said


class Share(NamedTuple):
    """What one balancer says."""

    balancer: str
    number: int
    whole: bool  # moved is all there is in flight, not the difference
    moved: tuple[Moved, ...]
    ended: tuple[Ended, ...]


class Watcher(Protocol):
    """Keeps something until then, in seconds."""

    until: float


class Part:
    """What one balancer has in flight on one node."""

    __slots__ = ("pull", "tasks")

    def __init__(self) -> None:
        self.tasks = 0
        self.pull = 0.0


class Known:
    """What is known of one node from all balancers."""

    __slots__ = (
        "busy_since",
        "capacity",
        "ok_at",
        "parts",
        "pull",
        "service",
        "standing",
        "suspect",
        "tasks",
        "watchers",
    )

    def __init__(self) -> None:
        self.watchers: list[Watcher] = []  # whose costs rest on this
        self.tasks = 0  # in flight
        self.pull = 0.0
        self.parts: dict[str, Part] = {}
        self.busy_since = 0.0  # when it last went from nothing to something
        self.ok_at = 0.0
        self.suspect = False  # failed since its last success
        self.service = Service()
        self.standing = Standing()
        self.capacity = 0.0

    def part(self, balancer: str) -> Part:
        """Return what this balancer has in flight here, as far as it said so."""
        found = self.parts.get(balancer)
        if found is None:
            found = self.parts[balancer] = Part()
        return found

    def move(self, part: Part, tasks: int, pull: float, now: float) -> None:
        """Count work in or out."""
        before = self.tasks
        part.tasks += tasks
        part.pull += pull
        self.tasks = before + tasks
        self.pull = self.pull + pull if self.tasks > 0 else 0.0
        if before <= 0 < self.tasks:
            self.busy_since = now
        self.changed()

    def changed(self) -> None:
        """Have the costs computed anew that rest on this."""
        for watcher in self.watchers:
            watcher.until = -inf


class Board:
    """The sum of what all balancers said. Times in seconds."""

    def __init__(self) -> None:
        self._nodes: dict[str, Known] = {}
        self._numbers: dict[str, int] = {}
        self._heard: dict[str, float] = {}
        self._whole = 0.0  # capacity
        self._ejected: set[str] = set()
        self.turns = 0  # grows with every ejection
        self.refused_at = -inf  # when the bound last held one back

    def node(self, ident: str) -> Known:
        """Return what is known of a node; a new one is known for nothing."""
        found = self._nodes.get(ident)
        if found is None:
            found = self._nodes[ident] = Known()
        return found

    def members(self, nodes: Iterable[tuple[str, float]], now: float) -> None:
        """Take the fleet: id and capacity; forget who left and is idle."""
        left = {ident for ident, known in self._nodes.items() if known.tasks <= 0}
        joined_late = bool(self._whole)
        self._whole = 0.0
        for ident, capacity in nodes:
            left.discard(ident)
            fresh = ident not in self._nodes
            known = self.node(ident)
            known.capacity = capacity
            if fresh and joined_late:
                known.standing.since = now
            self._whole += capacity
        for ident in left:
            del self._nodes[ident]
        self._ejected &= self._nodes.keys()

    def ended(
        self, ident: str, *, ok: bool, slowness: float | None, now: float
    ) -> None:
        """Take the end of a task on a node."""
        known = self.node(ident)
        known.changed()
        if slowness is not None:
            known.service.note(slowness, now)
        if ok:
            known.ok_at = max(known.ok_at, now)
            known.suspect = False
            known.standing.succeeded(now)
            return
        known.suspect = True
        if known.standing.failed(now, room=self._may_go(known, now)):
            self._ejected.add(ident)
            self.turns += 1

    def _may_go(self, known: Known, now: float) -> bool:
        if known.standing.failures + 1 < FAILURES:
            return True  # not asked yet
        out = self.ejected_capacity(now)
        fits = within_bound(out, known.capacity, self._whole)
        if not fits:
            self.refused_at = now
        return fits

    def ejected_capacity(self, now: float) -> float:
        """Return the capacity that is ejected now."""
        over = {i for i in self._ejected if self._nodes[i].standing.until <= now}
        self._ejected -= over
        return sum(self._nodes[ident].capacity for ident in self._ejected)

    def apply(self, share: Share, now: float) -> bool:
        """Take a share; False if one before it is missing: ask for a whole one.

        One that came before, or is older than what was heard, changes nothing.
        """
        last = self._numbers.get(share.balancer)
        if last is not None and share.number <= last:
            return True
        if share.whole:
            self._forget(share.balancer, now)
        elif share.number != (last or 0) + 1:
            return False
        self._numbers[share.balancer] = share.number
        self._heard[share.balancer] = now
        for node, tasks, pull in share.moved:
            known = self.node(node)
            known.move(known.part(share.balancer), tasks, pull, now)
        for node, ok, slowness in share.ended:
            self.ended(node, ok=ok, slowness=slowness, now=now)
        return True

    def expire(self, now: float) -> None:
        """Forget what balancers have in flight that fell silent."""
        gone = [b for b, heard in self._heard.items() if now - heard > GONE_S]
        for balancer in gone:
            self._forget(balancer, now)
            del self._heard[balancer], self._numbers[balancer]

    def count_itself(self, balancer: str) -> None:
        """Keep what a balancer has in flight: it counts here without shares."""
        self._heard.pop(balancer, None)
        self._numbers.pop(balancer, None)

    def _forget(self, balancer: str, now: float) -> None:
        for known in self._nodes.values():
            part = known.parts.get(balancer)
            if part is not None:
                known.move(part, -part.tasks, -part.pull, now)


class Outbox:
    """What this balancer has to say since it last did."""

    def __init__(self, balancer: str) -> None:
        self._balancer = balancer
        self._number = 0
        self._said_at = -inf
        self._moved: dict[str, list[float]] = {}
        self._ended: list[Ended] = []

    def move(self, node: str, tasks: int, pull: float) -> None:
        """Note work in or out."""
        sums = self._moved.get(node)
        if sums is None:
            self._moved[node] = [tasks, pull]
        else:
            sums[0] += tasks
            sums[1] += pull

    def ended(self, ended: Ended) -> None:
        """Note the end of a task."""
        self._ended.append(ended)

    def flush(self, now: float) -> Share | None:
        """Return what is new; None if nothing is and it said so lately."""
        if not self._moved and not self._ended and now - self._said_at < ALIVE_S:
            return None
        moved = tuple(
            Moved(node, int(tasks), pull)
            for node, (tasks, pull) in self._moved.items()
            if tasks or abs(pull) > _ROUNDING
        )
        return self._share(moved, now, whole=False)

    def whole(self, held: Iterable[Moved], now: float) -> Share:
        """Return all that is in flight, for who missed a share."""
        return self._share(tuple(held), now, whole=True)

    def _share(self, moved: tuple[Moved, ...], now: float, *, whole: bool) -> Share:
        self._number += 1
        self._said_at = now
        share = Share(self._balancer, self._number, whole, moved, tuple(self._ended))
        self._moved.clear()
        self._ended.clear()
        return share
