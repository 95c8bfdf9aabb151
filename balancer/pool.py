"""The pool: the nodes that fit a task, weighed and ready to draw from.

Nothing here depends on the work in flight, so a pool serves every task with
the same needs until the next snapshot: building one is O(n), drawing from it
O(log n). Where no node fits in full, the pool holds those that fit best, and
says what had to give: first a reading that is missing, then a risk group
shared with the node failed over from, last a report that is stale.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import accumulate
from statistics import median
from typing import NamedTuple

from . import needs, panic, standing
from .needs import Plain, Rule
from .settings import Settings
from .snapshot import Snapshot, State
from .task import Task
from .weights import Headroom, capacity, faded, headroom, middle, weight

_EXAMPLES = 3  # nodes shown for each rule, of those that it left out


class Mode(StrEnum):
    """How the nodes to choose from were found."""

    NORMAL = "normal"
    SPILL = "spill"  # nothing but stale nodes fits
    PANIC = "panic"  # too little usable capacity: headroom is ignored


class Example(NamedTuple):
    """A node that a rule left out."""

    node: str
    value: Plain


class Filtered(NamedTuple):
    """What one rule left out."""

    rule: str
    limit: Plain
    nodes: int
    fault: str  # what those nodes are said to do
    examples: tuple[Example, ...]


class Pool(NamedTuple):
    """The nodes to draw from; the sequences run alike, in order of rows."""

    mode: Mode
    rows: Sequence[int]
    readings: Sequence[Headroom | None]  # None: not known, or not believed
    rooms: Sequence[float]  # the headroom each is credited with
    weights: Sequence[float]
    cumulative: Sequence[float]
    rtts_ms: Sequence[float]  # an unread one counts as the pool's median
    groups: Sequence[frozenset[str]]  # of shared risk
    filtered: tuple[Filtered, ...]
    relaxed: tuple[str, ...]  # what had to give for these nodes to fit
    idle_words: tuple[str, ...]  # names in the task that match nothing
    built_at: float


class _Tier(NamedTuple):
    """How far a node is from fitting in full; the least tier is used."""

    stale: bool
    shared: int  # risk groups, with the node failed over from
    unread: int  # needs whose reading is missing


def build(snapshot: Snapshot, task: Task, now: float, settings: Settings) -> Pool:
    """Return the pool for a task; without rows if no node fits."""
    tally = _Tally(snapshot)
    tiers = _tiers(snapshot, task, settings, tally)
    best = min(tiers, default=_Tier(stale=False, shared=0, unread=0))
    for tier in sorted(tiers):
        if tier != best:
            tally.passed_over(tier, best, tiers[tier])
    rows = tiers.get(best, [])
    mode = _mode(snapshot, tiers, best, settings)
    readings = [_reading(snapshot, row, task) for row in rows]
    rooms = _rooms(snapshot, rows, readings, now, mode)
    weights = _weights(snapshot, rows, readings, rooms, mode)
    return Pool(
        mode=mode,
        rows=rows,
        readings=readings,
        rooms=rooms,
        weights=weights,
        cumulative=list(accumulate(weights)),
        rtts_ms=_rtts(snapshot, rows),
        groups=[frozenset(snapshot.groups[row]) for row in rows],
        filtered=tally.filtered(),
        relaxed=_relaxed(snapshot, task, settings, best, rows),
        idle_words=needs.idle_words(snapshot, task),
        built_at=now,
    )


def _tiers(
    snapshot: Snapshot, task: Task, settings: Settings, tally: "_Tally"
) -> dict[_Tier, list[int]]:
    rules = needs.rules(snapshot, task, settings.path_share)
    shared = needs.shared_groups(snapshot, task)
    tiers: dict[_Tier, list[int]] = {}
    columns = zip(snapshot.admin, snapshot.states, snapshot.slots, strict=True)
    for row, (admin, state, slots) in enumerate(columns):
        bar = standing.barred(admin, state, slots)
        if bar is not None:
            tally.barred(bar, row)
            continue
        unread, fits = 0, True
        for rule in rules:
            value = rule.value(row)
            if value is None:
                unread += 1
            elif not rule.passes(value):
                fits = False
                tally.failed(rule, row, value)
        if fits:
            tier = _Tier(state is State.STALE, shared(row), unread)
            tiers.setdefault(tier, []).append(row)
    return tiers


def _mode(
    snapshot: Snapshot,
    tiers: dict[_Tier, list[int]],
    best: _Tier,
    settings: Settings,
) -> Mode:
    if best.stale:
        return Mode.SPILL
    left = panic.remaining(
        (snapshot.states[row], capacity(snapshot.slots[row], snapshot.speed[row]))
        for rows in tiers.values()
        for row in rows
    )
    return Mode.PANIC if left < settings.panic_below else Mode.NORMAL


def _reading(snapshot: Snapshot, row: int, task: Task) -> Headroom | None:
    if snapshot.sampled_at[row] is None or not standing.measured(snapshot.states[row]):
        return None
    return headroom(
        snapshot.cpu[row],
        snapshot.memory[row],
        snapshot.network[row],
        snapshot.gpu[row],
        asks_gpu=task.asks_gpu,
    )


def _rooms(
    snapshot: Snapshot,
    rows: Sequence[int],
    readings: Sequence[Headroom | None],
    now: float,
    mode: Mode,
) -> list[float]:
    if mode is Mode.PANIC:
        return [1.0] * len(rows)
    known: list[float | None] = []
    for row, reading in zip(rows, readings, strict=True):
        sampled_at = snapshot.sampled_at[row]
        if reading is None or sampled_at is None:
            known.append(None)
        else:
            known.append(faded(reading.room, now - sampled_at))
    unknown = middle(known)
    return [unknown if room is None else room for room in known]


def _weights(
    snapshot: Snapshot,
    rows: Sequence[int],
    readings: Sequence[Headroom | None],
    rooms: Sequence[float],
    mode: Mode,
) -> list[float]:
    """Return each node's weight; one without a reading gets the median one.

    Never more than its capacity, though: a newcomer of one slot is no average
    node of a pool of large ones.
    """
    capacities = [capacity(snapshot.slots[row], snapshot.speed[row]) for row in rows]
    own = [weight(*pair) for pair in zip(capacities, rooms, strict=True)]
    measured = [
        w for w, reading in zip(own, readings, strict=True) if reading is not None
    ]
    if not measured or mode is Mode.PANIC:  # capacity alone
        return own
    middling = median(measured)
    return [
        min(middling, limit) if reading is None else w
        for w, limit, reading in zip(own, capacities, readings, strict=True)
    ]


def _rtts(snapshot: Snapshot, rows: Sequence[int]) -> list[float]:
    known = [snapshot.rtt_p95_ms[row] for row in rows]
    unknown = middle(known) if any(rtt is not None for rtt in known) else 0.0
    return [unknown if rtt is None else rtt for rtt in known]


def _relaxed(
    snapshot: Snapshot,
    task: Task,
    settings: Settings,
    best: _Tier,
    rows: Iterable[int],
) -> tuple[str, ...]:
    found: list[str] = []
    if best.stale:
        found.append("stale: no node with fresh reports fits")
    if best.shared:
        found.append(
            f"failover_from: no node fits that shares fewer than {best.shared} "
            f"risk groups with {task.failover_from}"
        )
    if best.unread:
        found += [
            f"{rule.name}: not read on a node taken, as no node with a reading fits"
            for rule in needs.rules(snapshot, task, settings.path_share)
            if any(rule.value(row) is None for row in rows)
        ]
    return tuple(found)


class _Tally:
    """Counts what each rule left out, with the first few as examples."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._found: dict[tuple[str, Plain, str], tuple[list[int], list[Example]]] = {}

    def barred(self, bar: str, row: int) -> None:
        fault = "have no slots" if bar == "slotless" else f"are {bar}"
        self._add(bar, None, fault, row, None)

    def failed(self, rule: Rule, row: int, value: Plain) -> None:
        self._add(rule.name, rule.limit, rule.fault, row, value)

    def passed_over(self, tier: _Tier, best: _Tier, rows: Iterable[int]) -> None:
        for row in rows:
            if tier.stale > best.stale:
                self._add("stale", None, "are stale", row, None)
            elif tier.shared > best.shared:
                fault = "share more risk groups with the node failed over from"
                limit, value = best.shared, tier.shared
                self._add("failover_groups", limit, fault, row, value)
            else:
                fault = "have no reading for a need"
                self._add("unread", best.unread, fault, row, tier.unread)

    def _add(self, name: str, limit: Plain, fault: str, row: int, value: Plain) -> None:
        count, examples = self._found.setdefault((name, limit, fault), ([0], []))
        count[0] += 1
        if len(examples) < _EXAMPLES:
            examples.append(Example(self._snapshot.names[row], value))

    def filtered(self) -> tuple[Filtered, ...]:
        """Return the rules, the one that left out most first."""
        found = [
            Filtered(name, limit, count[0], fault, tuple(examples))
            for (name, limit, fault), (count, examples) in self._found.items()
        ]
        return tuple(sorted(found, key=lambda entry: -entry.nodes))
