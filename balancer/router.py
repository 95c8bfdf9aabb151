"""The router: a snapshot, the ledger of leases, and one answer per task.

The only part with a memory. Time and chance are handed in, so the same seed,
snapshots, tasks and times give the same picks. For one thread: a pick and its
lease are one step only if nobody comes between.
"""

from enum import StrEnum
from random import Random
from typing import NamedTuple

from . import needs, pool
from .decision import Alternative, Candidate, Decision, NoFit
from .failover import alternatives
from .leases import Ledger, Load
from .pick import candidates, cost_ms, others, ranked
from .pool import Pool
from .settings import DEFAULTS, Settings
from .snapshot import Snapshot
from .task import Task

# Ages fade trust with a time constant of 30 s: a pool this old is near enough.
_POOL_S = 1.0
_EXPLAINED = 5  # candidates kept with a decision


class Outcome(StrEnum):
    """How the work of a decision ended."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"


class Closing(StrEnum):
    """What an outcome did."""

    CLOSED = "closed"  # the lease was open
    REPEATED = "repeated"  # an outcome had closed it already
    EXPIRED = "expired"  # its time had closed it already
    UNKNOWN = "unknown"  # no such decision, or one from too long ago


class _Record(NamedTuple):
    decision: Decision
    outcome: Outcome | None


class Router:
    """Routes tasks over the newest snapshot."""

    def __init__(self, rng: Random, settings: Settings = DEFAULTS) -> None:
        self._rng = rng
        self._settings = settings
        self._snapshot = Snapshot.of(())
        self._ledger = Ledger(settings.leases)
        self._pools: dict[tuple[object, ...], Pool] = {}
        self._records: dict[str, _Record] = {}

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that tasks are routed over."""
        return self._snapshot

    @property
    def open_leases(self) -> int:
        """Decisions without an outcome that have not been found expired."""
        return len(self._ledger)

    def update(self, snapshot: Snapshot) -> None:
        """Route over this snapshot from now on. Leases stay."""
        self._snapshot = snapshot
        self._pools.clear()
        self._ledger.expire(snapshot.at)
        self._ledger.forget_idle(snapshot.at)

    def load(self, node_id: str, now: float) -> Load:
        """Return the work in flight on a node."""
        self._ledger.expire(now)
        return self._ledger.load(node_id, now)

    def route(self, task: Task, now: float) -> Decision | NoFit:
        """Pick a node and open a lease on it; NoFit if no node may be picked."""
        self._ledger.expire(now)
        fitting = self._pool(task, now)
        unused = task.unused + fitting.idle_words
        if not fitting.rows:
            return NoFit(
                task=task,
                fleet=len(self._snapshot),
                filtered=fitting.filtered,
                unused=unused,
                snapshot=self._snapshot.version,
            )
        decision = self._decide(task, now, fitting, unused)
        self._ledger.open(decision.id, decision.node_id, now, decision.ttl_s)
        if len(self._records) >= self._settings.remembered:
            del self._records[next(iter(self._records))]
        self._records[decision.id] = _Record(decision, None)
        return decision

    def close(self, decision_id: str, outcome: Outcome, now: float) -> Closing:
        """Take an outcome, which ends the lease; a repeated one changes nothing."""
        self._ledger.expire(now)
        closed = self._ledger.close(decision_id, now) is not None
        record = self._records.get(decision_id)
        if record is not None and record.outcome is None:
            self._records[decision_id] = record._replace(outcome=outcome)
        if closed:
            return Closing.CLOSED
        if record is None:
            return Closing.UNKNOWN
        return Closing.EXPIRED if record.outcome is None else Closing.REPEATED

    def decision(self, decision_id: str) -> Decision | None:
        """Return a decision; None if there was none, or it is forgotten."""
        record = self._records.get(decision_id)
        return None if record is None else record.decision

    def outcome(self, decision_id: str) -> Outcome | None:
        """Return how a decision's work ended; None: not said, or forgotten."""
        record = self._records.get(decision_id)
        return None if record is None else record.outcome

    def _pool(self, task: Task, now: float) -> Pool:
        key = needs.key(task)
        found = self._pools.get(key)
        if found is None or now - found.built_at >= _POOL_S:
            if len(self._pools) >= self._settings.pools:
                self._pools.clear()
            found = pool.build(self._snapshot, task, now, self._settings)
            self._pools[key] = found
        return found

    def _decide(
        self, task: Task, now: float, fitting: Pool, unused: tuple[str, ...]
    ) -> Decision:
        fleet, settings, ledger = self._snapshot, self._settings, self._ledger
        positions = candidates(fitting.cumulative, self._rng, settings)
        rows = [fitting.rows[position] for position in positions]
        service_ms = task.service_s * 1000
        loads: list[Load] = []
        taken: list[float] = []
        costs: list[float] = []
        for position, row in zip(positions, rows, strict=True):
            slots = fleet.slots[row]
            load = ledger.load(fleet.ids[row], now)
            elsewhere = others(slots, fitting.rooms[position], load)
            loads.append(load)
            taken.append(elsewhere)
            costs.append(
                cost_ms(
                    fitting.rtts_ms[position],
                    service_ms,
                    fleet.speed[row],
                    slots,
                    elsewhere + load.in_flight,
                )
            )
        order = ranked(costs, self._rng)
        groups = [fitting.groups[position] for position in positions]
        next_rows = [rows[place] for place in alternatives(order, groups)]
        explained: list[Candidate] = []
        for place in order[:_EXPLAINED]:
            position, row = positions[place], rows[place]
            reading = fitting.readings[position]
            sampled_at = fleet.sampled_at[row]
            explained.append(
                Candidate(
                    node=fleet.names[row],
                    state=fleet.states[row],
                    cost_ms=costs[place],
                    rtt_ms=fleet.rtt_p95_ms[row],
                    in_flight=loads[place].in_flight,
                    others=taken[place],
                    slots=fleet.slots[row],
                    speed=fleet.speed[row],
                    weight=fitting.weights[position],
                    headroom=None if reading is None else reading.room,
                    credited=fitting.rooms[position],
                    limiting=None if reading is None else reading.limiting,
                    age_ms=None if sampled_at is None else (now - sampled_at) * 1000,
                )
            )
        first = rows[order[0]]
        return Decision(
            id=f"{self._rng.getrandbits(64):016x}",
            node=fleet.names[first],
            node_id=fleet.ids[first],
            address=fleet.addresses[first],
            score=explained[0].headroom,
            made_at=now,
            ttl_s=max(settings.lease_s, 2 * (task.duration_s or 0.0)),
            alternatives=tuple(
                Alternative(fleet.names[row], fleet.addresses[row]) for row in next_rows
            ),
            mode=fitting.mode,
            task=task,
            candidates=tuple(explained),
            compared=len(rows),
            fitting=len(fitting.rows),
            filtered=fitting.filtered,
            relaxed=fitting.relaxed,
            unused=unused,
            snapshot=fleet.version,
        )
