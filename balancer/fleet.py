"""The fleet as one router sees it: seats, their costs, and chances to be drawn.

Kept between snapshots, so that a new one costs little: a seat reads its row,
and computes its cost, when it is next looked at.
"""

from collections.abc import Callable, Iterable
from functools import partial
from math import inf
from random import Random

from .bus import Board
from .changes import Changes, same_nodes
from .cost import FAILED, MIX_SHARE, QUEUE_GAIN, UNCLEAR
from .ejection import BASE_S
from .panic import remaining
from .sampler import Sampler
from .seat import FRESH_S, STALLED_S, Facts, Seat, facts
from .settings import Settings
from .snapshot import Admin, Snapshot
from .stall import PATIENCE, inflation
from .standing import GONE, REPORTING
from .weights import PRIOR, Headroom, capacity, faded, middle, weight

# A balancer that sent what it has not said yet believes that the others did
# so too: of each of them this share. Found by simulation.
_ECHO = 0.3
_MIX_GAIN = 1 / 500  # of the mean work, a pick
_TRUSTED_S = 1.0  # ages fade trust in 30 s: a room this old is near enough
_SAMPLED = 64  # nodes that a median is taken of


class Fleet:
    """Seats by row, over the newest snapshot."""

    def __init__(self, settings: Settings, board: Board, name: str) -> None:
        self._settings = settings
        self._name = name
        self.board = board
        self.snapshot = Snapshot.of(())
        self.changes: Changes | None = None  # since the last; None: other nodes
        self.seats: list[Seat] = []
        self.by_id: dict[str, Seat] = {}  # with those who left and have leases
        self.crowd = 1  # balancers that live
        self.connected = False
        self._multiple, self._echo = 1.0, 0.0
        self._capacities: list[float] = []
        self._samplers: dict[bool, Sampler[Seat]] = {}
        self._low = False  # too little of the capacity is usable
        self._rtt_ms = 0.0  # the median, for who has none
        self._room = PRIOR
        self._mean_work_ms = 0.0
        self._mixed = 0

    # --- what it is told ---

    def update(self, snapshot: Snapshot) -> None:
        """Take a snapshot."""
        before, self.snapshot = self.snapshot, snapshot
        if same_nodes(before, snapshot):
            self.changes = Changes(before, snapshot)
            moved = bool(self.changes.rows("admin") or self.changes.rows("states"))
        else:
            self.changes, moved = None, True
            self._take_members(snapshot)
            self._samplers.clear()
        rows = range(0, len(snapshot), max(1, len(snapshot) // _SAMPLED))
        self._rtt_ms = middle((snapshot.rtt_p95_ms[row] for row in rows), 0.0)
        self._room = middle((self._read(row) for row in rows), PRIOR)
        if moved:
            low, self._low = self._low, self._is_low(snapshot)
            if low != self._low:
                self._samplers.clear()
                self._outdate()
        self.board.expire(snapshot.at)

    def join(self, crowd: int, *, connected: bool) -> None:
        """Hear how many balancers live, and whether they hear each other."""
        self.crowd, self.connected = max(1, crowd), connected
        self._multiple = max(1.0, self.crowd / 2)
        self._echo = _ECHO * (self.crowd - 1)
        self._outdate()

    def _outdate(self) -> None:
        """Have every cost computed anew when it is next looked at."""
        for seat in self.seats:
            seat.until = seat.trusted_until = -inf

    def mix(self, work_ms: float) -> None:
        """Count a task in the mean work of the recent mix."""
        self._mixed += 1
        gain = max(_MIX_GAIN, 1 / self._mixed)
        self._mean_work_ms += gain * (work_ms - self._mean_work_ms)

    def _take_members(self, snapshot: Snapshot) -> None:
        sizes = [
            (ident, capacity(slots, speed))
            for ident, slots, speed in zip(
                snapshot.ids, snapshot.slots, snapshot.speed, strict=True
            )
        ]
        self.board.members(sizes, snapshot.at)
        self._capacities = [size for _, size in sizes]
        before = self.by_id
        self.by_id = {ident: seat for ident, seat in before.items() if seat.tasks}
        for seat in self.by_id.values():
            seat.row = -1
        self.seats = []
        for row, ident in enumerate(snapshot.ids):
            known = self.board.node(ident)
            kept = before.get(ident)
            if kept is None or kept.known is not known:
                kept = Seat(ident, known, known.part(self._name))
            kept.row, kept.trusted_until = row, -inf
            self.by_id[ident] = kept
            self.seats.append(kept)

    def _is_low(self, snapshot: Snapshot) -> bool:
        columns = zip(snapshot.admin, snapshot.states, self._capacities, strict=True)
        left = remaining(
            (state, size)
            for admin, state, size in columns
            if admin is Admin.ACTIVE and state not in GONE
        )
        return left < self._settings.panic_below

    def _read(self, row: int) -> float | None:
        known = facts(self.snapshot, row)
        if known.reading is None or known.sampled_at is None:
            return None
        return faded(known.reading.room, self.snapshot.at - known.sampled_at)

    # --- what it is asked ---

    def panics(self, now: float) -> bool:
        """Say whether so much looks bad that headroom is not to be believed."""
        return self._low or now - self.board.refused_at < BASE_S

    def sampler(self, *, gpu: bool, now: float) -> Sampler[Seat]:
        """Return what draws from the whole fleet."""
        found = self._samplers.get(gpu)
        if found is None:
            found = self._samplers[gpu] = self.sampler_of(self.seats, gpu=gpu, now=now)
        return found

    def sampler_of(
        self, seats: Iterable[Seat], *, gpu: bool, now: float
    ) -> Sampler[Seat]:
        """Return what draws from these nodes."""
        weigh: Callable[[Seat, float], float] = partial(self._weigh, gpu=gpu)
        return Sampler(list(seats), weigh, now)

    def whole(self, seats: Iterable[Seat], rng: Random, now: float) -> list[Seat]:
        """Return those to compare where all are: a ramp is a chance to be so."""
        found = []
        for seat in seats:
            ramp = seat.known.standing.ramp(now)
            if ramp >= 1.0 or rng.random() < ramp:
                found.append(seat)
        return found

    def levels(self, now: float) -> dict[str, float | None]:
        """Return the share of its nominal weight that each node is worth."""
        return {seat.id: self._level(seat, now) for seat in self.seats}

    def _level(self, seat: Seat, now: float) -> float | None:
        snapshot, row = self.snapshot, seat.row
        if (
            snapshot.admin[row] is not Admin.ACTIVE
            or snapshot.slots[row] < 1
            or seat.known.standing.until > now
        ):
            return 0.0
        if snapshot.states[row] not in REPORTING:
            return None
        return min(1.0, self._weigh(seat, now, gpu=False) / self._capacities[row])

    def _weigh(self, seat: Seat, now: float, *, gpu: bool) -> float:
        if now >= seat.until:
            self.renew(seat, now)
        # What our own work takes is counted as of now, not as it was read.
        room = min(1.0, 1.0 - seat.used + seat.busy / seat.slots)
        if gpu:
            room = min(room, 1.0 - self.gpu_used(seat, now))
        ramp = seat.known.standing.ramp(now)
        return weight(seat.facts.slots, seat.slowness * seat.stall, room, ramp)

    def gpu_used(self, seat: Seat, now: float) -> float:
        """Return the share of a node in use, for a task that needs its GPU."""
        reading = seat.facts.believed(asks_gpu=True)
        return 1.0 - self._room_of(seat.facts, reading, now)

    def _room_of(self, known: Facts, reading: Headroom | None, now: float) -> float:
        if self.panics(now):
            return 1.0
        if reading is None or known.sampled_at is None:
            return self._room
        return faded(reading.room, now - known.sampled_at)

    # --- the cost of a seat ---

    def renew(self, seat: Seat, now: float) -> None:
        """Compute the cost of a seat: see cost.py for the formula."""
        if now >= seat.trusted_until:
            self._reread(seat, now)
        known, slots, rtt_ms = seat.known, seat.slots, seat.rtt_ms
        slowness = known.service.slowness(1.0 / seat.speed, now)
        busy = self._busy(seat)
        stall = 1.0
        tasks = known.tasks
        until = now + FRESH_S
        if tasks > 0 and known.pull > 0:
            began = known.busy_since + rtt_ms / 1000
            if known.ok_at > began:
                began = known.ok_at
            due = known.pull if tasks <= slots else known.pull * slots / tasks
            answers = (now - began) * 1000 * due / slowness
            if answers > PATIENCE:
                stall = inflation(answers)
                until = now + STALLED_S
            else:
                overdue_at = began + PATIENCE * slowness / due / 1000
                if overdue_at < until:
                    until = overdue_at
        u = (busy + 1.0) / slots
        foreign = seat.used - busy / slots - UNCLEAR
        if foreign > 0:
            u += foreign
        inflated = slowness * stall
        queue = QUEUE_GAIN * inflated * u * u
        base_ms = rtt_ms + queue * MIX_SHARE * self._mean_work_ms
        slope = inflated + queue * (1.0 - MIX_SHARE)
        if known.suspect and busy >= 1:
            base_ms *= FAILED
            slope *= FAILED
        seat.base_ms, seat.slope = base_ms, slope
        seat.slowness, seat.stall, seat.busy = slowness, stall, busy
        # Of who is ejected nothing is kept, so that it is seen at every look.
        seat.until = until if known.standing.until <= now else -inf
        seat.seen_as = None

    def _busy(self, seat: Seat) -> float:
        """Return what to count in flight on a node, of all balancers."""
        own = seat.tasks
        if not self.connected:
            return self._multiple * own + seat.rest
        said = seat.part.tasks
        busy = own + self._echo * (own - said)
        others = seat.known.tasks - said
        if others > 0:
            busy += others
        return max(own, busy)

    def _reread(self, seat: Seat, now: float) -> None:
        seat.facts = known = facts(self.snapshot, seat.row)
        seat.slots, seat.speed = known.slots or 1, known.speed
        seat.rtt_ms = self._rtt_ms if known.rtt_ms is None else known.rtt_ms
        seat.used = 1.0 - self._room_of(known, known.reading, now)
        seat.trusted_until = now + _TRUSTED_S
