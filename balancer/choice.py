"""The choice: a few nodes, by weight, of which the one of least cost is taken.

In a large fleet nodes are drawn first and judged then, so a pick costs the
same whatever the size. In a small one, or where hardly a node fits, all are
looked at once a snapshot (pool.py). A lone balancer compares a small fleet
whole; several would all run to the same node, so they draw.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from . import needs, pool
from .ask import Ask
from .cost import QUEUE_GAIN
from .fleet import Fleet
from .pick import least
from .pool import Miss, Mode
from .sampler import Sampler
from .seat import Seat
from .settings import Settings
from .snapshot import Snapshot
from .task import Task
from .work import size

LEAST = 3  # an answer names two nodes beside the first
_ENOUGH = 4  # fitting ones among the drawn; fewer, and more are drawn
_ROUNDS = 3


class Wish:
    """A task, with what is asked of it again and again."""

    __slots__ = ("ask", "gpu", "key", "labelled_ms", "size", "task", "ttl_s", "unused")

    def __init__(self, task: Task, settings: Settings) -> None:
        self.task = task
        closed = task.task_class in settings.fail_closed
        self.key = (closed, *needs.key(task))  # equal keys fit alike
        self.labelled_ms = task.service_s * 1000  # its work
        self.size = size(self.labelled_ms)
        self.gpu = task.asks_gpu
        self.ttl_s = max(settings.lease_s, 2 * (task.duration_s or 0.0))
        self.unused = task.unused
        self.ask: Ask | None = None  # of the newest snapshot it was asked over


class Pool(NamedTuple):
    """The nodes found by looking at all, ready to draw from."""

    found: pool.Pool
    sampler: Sampler[Seat]
    turns: int  # of the board, when it was made
    until: float  # when an ejection ends that it was made under


class Chosen(NamedTuple):
    """The node taken, and those it was compared with."""

    seat: Seat
    seats: Sequence[Seat]
    costs: Sequence[float]
    mode: Mode
    looked_at: int
    misses: Sequence[Miss]
    pool: Pool | None  # None: drawn from the whole fleet
    stuck: bool = False  # a sticky key decided


class Chooser:
    """Chooses over a fleet; `update` with each snapshot."""

    def __init__(self, fleet: Fleet, rng: Random, settings: Settings) -> None:
        self._fleet = fleet
        self._rng = rng
        self._settings = settings
        self._asks: dict[tuple[object, ...], Ask] = {}
        self._pools: dict[tuple[object, ...], Pool] = {}

    def update(self) -> None:
        """Hear that the fleet has a new snapshot."""
        self._pools.clear()

    def choose(self, wish: Wish, work_ms: float, now: float) -> Chosen | pool.Pool:
        """Return the choice; a pool, which is empty, if no node fits."""
        if len(self._fleet.seats) > self._settings.full_scan:
            drawn = self._drawn(wish, work_ms, now)
            if drawn is not None:
                return drawn
        return self._pooled(wish, work_ms, now)

    def stuck(self, wish: Wish, node: str, work_ms: float, now: float) -> Chosen | None:
        """Return the node that a sticky key went to, if it may still."""
        fleet = self._fleet
        seat = fleet.by_id.get(node)
        if seat is None or seat.row < 0 or seat.known.standing.until > now:
            return None
        if not self.ask(wish).stays(seat.row):
            return None
        fleet.renew(seat, now)
        costs = [seat.base_ms + seat.slope * work_ms]
        return Chosen(seat, [seat], costs, Mode.NORMAL, 1, (), None, stuck=True)

    def ask(self, wish: Wish) -> Ask:
        """Return what is known of these needs on this snapshot."""
        snapshot = self._fleet.snapshot
        if wish.ask is not None and wish.ask.snapshot is snapshot:
            return wish.ask
        wish.ask = found = self._asked(wish, snapshot)
        return found

    def _asked(self, wish: Wish, snapshot: Snapshot) -> Ask:
        found = self._asks.get(wish.key)
        if found is not None:
            if found.snapshot is snapshot:
                return found
            changes = self._fleet.changes
            if changes is not None and changes.before is found.snapshot:
                found.renew(changes)
                return found
        elif len(self._asks) >= self._settings.asks:
            self._asks.clear()
            self._pools.clear()
        found = Ask(snapshot, wish.task, self._settings.path_share)
        self._asks[wish.key] = found
        return found

    def unused(self, wish: Wish) -> tuple[str, ...]:
        """Return the fields and names of a task that change nothing."""
        ask = self.ask(wish)
        if ask.idle is None:
            ask.idle = needs.idle_words(self._fleet.snapshot, wish.task)
        return wish.unused + ask.idle if ask.idle else wish.unused

    def more(self, wish: Wish, chosen: Chosen, now: float) -> list[Seat]:
        """Return other fitting nodes, where few hold nearly all the weight."""
        of_pool = chosen.pool is not None
        members = chosen.pool.sampler.members if chosen.pool else self._fleet.seats
        ask = self.ask(wish)
        start = self._rng.randrange(len(members))
        found: list[Seat] = []
        for step in range(min(len(members), self._settings.full_scan)):
            seat = members[(start + step) % len(members)]
            fits = of_pool or ask.judge(seat.row) is True
            if fits and seat not in chosen.seats and seat.known.standing.until <= now:
                self._fleet.renew(seat, now)
                found.append(seat)
            if len(found) == LEAST:
                break
        return found

    def _drawn(self, wish: Wish, work_ms: float, now: float) -> Chosen | None:
        """Choose among nodes drawn from the whole fleet; None: too few fit."""
        fleet, rng = self._fleet, self._rng
        sampler = fleet.sampler(gpu=wish.gpu, now=now)
        ask = self.ask(wish)
        verdicts = ask.verdicts
        seats: list[Seat] = []
        costs: list[float] = []
        misses: list[Miss] = []
        count = self._settings.draws
        looked_at = 0
        while looked_at < _ROUNDS * count and len(seats) < _ENOUGH:
            looked_at += count
            for seat in sampler.draw(count, rng, now):
                verdict = verdicts[seat.row]
                if verdict is not True:
                    verdict = verdict or ask.judge(seat.row)
                    if verdict is not True:
                        misses.append(verdict)
                        continue
                if now >= seat.until:
                    # An ejection is news, which ends a cost: it is seen here.
                    if seat.known.standing.until > now:
                        name = fleet.snapshot.names[seat.row]
                        misses.append(pool.thrown_out(name))
                        continue
                    fleet.renew(seat, now)
                seats.append(seat)
                costs.append(seat.base_ms + seat.slope * work_ms)
        if len(seats) < LEAST:
            return None
        if wish.gpu:
            costs = self._with_gpu(seats, costs, work_ms, now)
        mode = Mode.PANIC if fleet.panics(now) else Mode.NORMAL
        seat = least(seats, costs, rng)
        return Chosen(seat, seats, costs, mode, looked_at, misses, None)

    def _pooled(self, wish: Wish, work_ms: float, now: float) -> Chosen | pool.Pool:
        """Choose among the nodes found by looking at all."""
        fleet = self._fleet
        kept = self._pool(wish, now)
        if not kept.found.rows:
            return kept.found
        seats = self._compared(kept, now)
        costs: list[float] = []
        for seat in seats:
            if now >= seat.until:
                fleet.renew(seat, now)
            costs.append(seat.base_ms + seat.slope * work_ms)
        if wish.gpu:
            costs = self._with_gpu(seats, costs, work_ms, now)
        mode = kept.found.mode
        if mode is Mode.NORMAL and fleet.panics(now):
            mode = Mode.PANIC
        seat = least(seats, costs, self._rng)
        return Chosen(seat, seats, costs, mode, len(fleet.seats), (), kept)

    def _pool(self, wish: Wish, now: float) -> Pool:
        fleet = self._fleet
        made = self._pools.get(wish.key)
        if made is None or made.turns != fleet.board.turns or now >= made.until:
            self.ask(wish)  # which bounds how many are kept
            ends = [seat.known.standing.until for seat in fleet.seats]
            found = pool.build(
                fleet.snapshot, wish.task, self._settings, lambda row: ends[row] > now
            )
            seats = [fleet.seats[row] for row in found.rows]
            made = self._pools[wish.key] = Pool(
                found,
                fleet.sampler_of(seats, gpu=wish.gpu, now=now),
                fleet.board.turns,
                min((end for end in ends if end > now), default=float("inf")),
            )
        return made

    def _compared(self, kept: Pool, now: float) -> Sequence[Seat]:
        members = kept.sampler.members
        whole_up_to = self._settings.full_scan if self._fleet.crowd == 1 else LEAST
        if len(members) <= whole_up_to:
            return self._fleet.whole(members, self._rng, now) or members
        drawn = kept.sampler.draw(self._settings.draws, self._rng, now)
        return list(dict.fromkeys(drawn))

    def _with_gpu(
        self, seats: Sequence[Seat], costs: Sequence[float], work_ms: float, now: float
    ) -> list[float]:
        """Return the costs with the wait for GPUs that are in use."""
        found = []
        for seat, cost in zip(seats, costs, strict=True):
            used = self._fleet.gpu_used(seat, now)
            found.append(cost + QUEUE_GAIN * seat.slowness * work_ms * used * used)
        return found
