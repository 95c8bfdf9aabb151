"""The router: a snapshot, the leases, and one answer per task.

The only part with a memory. Time and chance are handed in, so the same seed,
snapshots, tasks and times give the same picks. For one thread: a pick and its
lease are one step only if nobody comes between.

`route` picks and explains; `pick` only picks, for who asks often. Several
routers that `share` what they sent and `hear` each other act as one (bus.py).
"""

from collections import OrderedDict
from collections.abc import Sequence
from math import inf
from random import Random
from typing import NamedTuple

from . import pool
from .bus import Board, Ended, Moved, Outbox, Share
from .choice import LEAST, Chooser, Chosen, Wish
from .decision import Decision, NoFit
from .fleet import Fleet
from .leases import Lease, Ledger
from .outcome import Closing, Outcome
from .pool import Filtered
from .records import Records
from .seat import Seat, View
from .settings import DEFAULTS, Settings
from .snapshot import Snapshot
from .sticky import Sticky
from .task import Task
from .work import Work, bounded

# How fast the load that answers tell of replaces what was believed.
_REST_GAIN = 0.3
_WISHES = 256  # kept


class Load(NamedTuple):
    """What is in flight on a node."""

    in_flight: int  # our open leases


class Pick(NamedTuple):
    """A node, and the lease on it."""

    id: str  # 16 hexadecimal digits
    node_id: str
    address: str | None


class Router:
    """Routes tasks over the newest snapshot."""

    def __init__(
        self,
        rng: Random,
        settings: Settings = DEFAULTS,
        *,
        name: str = "",
        board: Board | None = None,
    ) -> None:
        """Begin alone. `name` is this balancer's among others, and new each start."""
        self._rng = rng
        self._settings = settings
        self._fleet = Fleet(settings, board or Board(), name)
        self._chooser = Chooser(self._fleet, rng, settings)
        self._work = Work()
        self._wishes: dict[int, Wish] = {}
        self._name = name
        self._outbox = Outbox(name)
        self._kept: OrderedDict[int, Snapshot] = OrderedDict()
        self._ledger = Ledger(settings.leases)
        self._records = Records(settings.remembered)
        self._sticky = Sticky(settings.sticky)

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that tasks are routed over."""
        return self._fleet.snapshot

    @property
    def board(self) -> Board:
        """What is known of the nodes from all balancers."""
        return self._fleet.board

    @property
    def open_leases(self) -> int:
        """Decisions without an outcome that have not been found expired."""
        return len(self._ledger)

    def update(self, snapshot: Snapshot) -> None:
        """Route over this snapshot from now on. Leases stay."""
        self._kept[snapshot.version] = snapshot
        while len(self._kept) > self._settings.snapshots:
            self._kept.popitem(last=False)
        self._fleet.update(snapshot)
        self._chooser.update()
        self._expire(snapshot.at)

    # --- among balancers ---

    def balancers(self, count: int, *, connected: bool, now: float) -> None:
        """Say how many balancers live, this one too, and if shares arrive.

        While connected, hand every share, of this router too, to `hear`. When
        that begins, send each other the whole share.
        """
        if self._fleet.connected and not connected:
            self._settle(now)
        self._fleet.join(count, connected=connected)

    def share(self, now: float) -> Share | None:
        """Return what is new to tell the other balancers; None: nothing."""
        return self._outbox.flush(now)

    def whole_share(self, now: float) -> Share:
        """Return all of it, for a balancer that is new or missed a share."""
        held = (
            Moved(seat.id, seat.tasks, seat.pull)
            for seat in self._fleet.by_id.values()
            if seat.tasks
        )
        return self._outbox.whole(held, now)

    def hear(self, share: Share, now: float) -> bool:
        """Take a share; False: one before is missing, ask for a whole one."""
        return self.board.apply(share, now)

    # --- tasks and outcomes ---

    def pick(self, task: Task, now: float) -> Pick | NoFit:
        """Pick a node and open a lease on it, without an explanation."""
        wish = self._wish(task)
        work_ms = self._work.expected_ms(wish.size, wish.labelled_ms)
        chosen = self._choose(wish, work_ms, now)
        if isinstance(chosen, pool.Pool):
            return self._no_fit(wish, chosen)
        seat = chosen.seat
        ident = f"{self._rng.getrandbits(64):016x}"
        self._open(ident, seat, wish, work_ms, now)
        return Pick(ident, seat.id, seat.facts.address)

    def route(self, task: Task, now: float) -> Decision | NoFit:
        """Pick a node and open a lease on it; NoFit if no node may be picked."""
        wish = self._wish(task)
        work_ms = self._work.expected_ms(wish.size, wish.labelled_ms)
        chosen = self._choose(wish, work_ms, now)
        if isinstance(chosen, pool.Pool):
            return self._no_fit(wish, chosen)
        decision = self._decision(wish, chosen, now)
        self._open(decision.id, chosen.seat, wish, work_ms, now)
        self._records.keep(decision)
        return decision

    def close(
        self,
        decision_id: str,
        outcome: Outcome,
        now: float,
        *,
        service_ms: float | None = None,
        node_inflight: int | None = None,
    ) -> Closing:
        """Take an outcome, which ends the lease; a repeated one changes nothing.

        `service_ms` is the time served, without queue and path. `node_inflight`
        is what the node had in flight then, of all balancers. None: not said.
        """
        if now >= self._ledger.next_due:
            self._expire(now)
        lease = self._ledger.close(decision_id)
        record = self._records.get(decision_id)
        before = None if record is None else record.outcome
        if record is not None and before is None:
            record.outcome = outcome
        if lease is not None:
            self._back(lease, now)
            self._learn(lease, outcome, service_ms, node_inflight, now)
            return Closing.CLOSED
        if record is None:
            return Closing.UNKNOWN
        return Closing.EXPIRED if before is None else Closing.REPEATED

    def load(self, node_id: str, now: float) -> Load:
        """Return the work in flight on a node."""
        self._expire(now)
        seat = self._fleet.by_id.get(node_id)
        return Load(0 if seat is None else seat.tasks)

    def decision(self, decision_id: str) -> Decision | None:
        """Return a decision; None if there was none, or it is forgotten."""
        record = self._records.get(decision_id)
        return None if record is None else record.decision

    def outcome(self, decision_id: str) -> Outcome | None:
        """Return how a decision's work ended; None: not said, or forgotten."""
        record = self._records.get(decision_id)
        return None if record is None else record.outcome

    def levels(self, now: float) -> dict[str, float | None]:
        """Return what of its nominal weight each node should get from a proxy.

        By id, 0.0-1.0. 0: nothing new, it is drained, ejected or has no slots.
        None: nothing is known of it now. damping.py makes weights of them.
        """
        return self._fleet.levels(now)

    def filtered(self, decision: Decision) -> tuple[Filtered, ...] | None:
        """Return what each rule left out of the whole fleet for a decision.

        By the snapshot it was made on; None if that is not kept any more.
        """
        if decision.left_out:
            return decision.left_out
        snapshot = self._kept.get(decision.snapshot)
        if snapshot is None:
            return None
        return pool.build(
            snapshot, decision.task, self._settings, lambda _: False
        ).filtered

    # --- the choice ---

    def _choose(self, wish: Wish, work_ms: float, now: float) -> Chosen | pool.Pool:
        if now >= self._ledger.next_due:
            self._expire(now)
        self._fleet.mix(work_ms)
        if wish.task.sticky is not None:
            node = self._sticky.node(wish.task.sticky)
            if node is not None:
                stuck = self._chooser.stuck(wish, node, work_ms, now)
                if stuck is not None:
                    return stuck
        return self._chooser.choose(wish, work_ms, now)

    def _wish(self, task: Task) -> Wish:
        """Return what is asked, kept for callers that hand in a task again."""
        key = id(task)  # the wish holds the task, so its id is nobody else's
        wish = self._wishes.get(key)
        if wish is None:
            if len(self._wishes) >= _WISHES:
                self._wishes.clear()
            wish = Wish(task, self._settings)
            self._wishes[key] = wish
        return wish

    def _no_fit(self, wish: Wish, found: pool.Pool) -> NoFit:
        return NoFit(
            task=wish.task,
            fleet=len(self.snapshot),
            filtered=found.filtered,
            unused=self._chooser.unused(wish),
            snapshot=self.snapshot.version,
        )

    def _decision(self, wish: Wish, chosen: Chosen, now: float) -> Decision:
        seat, seats, costs, mode, looked_at, misses, kept, stuck = chosen
        known = seat.facts
        more: Sequence[View] = ()
        if len(seats) < 2 * LEAST and len(set(seats)) < LEAST and not stuck:
            found = self._chooser.more(wish, chosen, now)
            more = [other.view() for other in found]
        return Decision(
            f"{self._rng.getrandbits(64):016x}",
            known.name,
            known.id,
            known.address,
            now,
            wish.ttl_s,
            mode,
            wish.task,
            seat.view(),
            [each.seen_as or each.view() for each in seats],
            costs,
            more,
            looked_at,
            misses,
            () if kept is None else kept.found.filtered,
            () if kept is None else kept.found.relaxed,
            self._chooser.unused(wish),
            stuck,
            self.snapshot.version,
        )

    # --- leases ---

    def _open(
        self, ident: str, seat: Seat, wish: Wish, work_ms: float, now: float
    ) -> None:
        evicted = self._ledger.open(
            ident, seat, wish.labelled_ms, work_ms, now + wish.ttl_s
        )
        self._count(seat, 1, 1.0 / work_ms, now)
        if wish.task.sticky is not None:
            self._sticky.keep(wish.task.sticky, seat.id)
        if evicted is not None:
            self._back(evicted, now)

    def _back(self, lease: Lease, now: float) -> None:
        self._count(lease.seat, -1, -1.0 / lease.work_ms, now)

    def _count(self, seat: Seat, tasks: int, pull: float, now: float) -> None:
        seat.tasks += tasks
        seat.pull = seat.pull + pull if seat.tasks else 0.0
        seat.until = -inf
        if self._fleet.connected:
            self._outbox.move(seat.id, tasks, pull)
        else:
            seat.known.move(seat.part, tasks, pull, now)

    def _learn(
        self,
        lease: Lease,
        outcome: Outcome,
        service_ms: float | None,
        node_inflight: int | None,
        now: float,
    ) -> None:
        seat, ok = lease.seat, outcome is Outcome.OK
        slowness = None
        if ok and service_ms is not None:
            slowness = bounded(service_ms / lease.work_ms)
            self._work.learn(lease.labelled_ms, service_ms * seat.speed)
        if self._fleet.connected:
            self._outbox.ended(Ended(seat.id, ok, slowness))
            return
        self.board.ended(seat.id, ok=ok, slowness=slowness, now=now)
        if node_inflight is not None:
            unexplained = max(0, node_inflight - seat.tasks)
            seat.rest += _REST_GAIN * (unexplained - seat.rest)

    def _expire(self, now: float) -> None:
        for lease in self._ledger.due(now):
            self._back(lease, now)

    def _settle(self, now: float) -> None:
        """Put on the board what was not said before shares stopped."""
        self.board.count_itself(self._name)
        rest = self._outbox.flush(now)
        for seat in self._fleet.by_id.values():
            part = seat.part
            tasks, pull = seat.tasks - part.tasks, seat.pull - part.pull
            seat.known.move(part, tasks, pull, now)
        for node, ok, slowness in () if rest is None else rest.ended:
            self.board.ended(node, ok=ok, slowness=slowness, now=now)
