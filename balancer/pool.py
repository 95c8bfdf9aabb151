"""The pool: the nodes that fit a task, found by looking at every one.

Used for small fleets, and for large ones when hardly a node fits. Where none
fits in full, the pool holds those that fit best, and says what had to give:
first a reading that is missing, then a risk group shared with the node failed
over from, last a report that is stale, and an ejection after that.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from . import needs, panic, standing
from .needs import Plain, Rule
from .settings import Settings
from .snapshot import Snapshot, State
from .task import Task
from .weights import capacity

_EXAMPLES = 3  # nodes shown for each rule, of those that it left out


class Mode(StrEnum):
    """How the nodes to choose from were found."""

    NORMAL = "normal"
    SPILL = "spill"  # nothing but stale or ejected nodes fits
    PANIC = "panic"  # too little usable capacity: headroom is ignored


class Example(NamedTuple):
    """A node that a rule left out."""

    node: str
    value: Plain


class Filtered(NamedTuple):
    """What one rule left out, of the nodes that were looked at."""

    rule: str
    limit: Plain
    nodes: int
    fault: str  # what those nodes are said to do
    examples: tuple[Example, ...]


class Miss(NamedTuple):
    """Why one node was left out."""

    rule: str
    limit: Plain
    fault: str
    node: str
    value: Plain


class Pool(NamedTuple):
    """The rows that fit best."""

    mode: Mode
    rows: Sequence[int]
    filtered: tuple[Filtered, ...]
    relaxed: tuple[str, ...]  # what had to give for these nodes to fit


class _Tier(NamedTuple):
    """How far a node is from fitting in full; the least tier is used."""

    ejected: bool
    stale: bool
    shared: int  # risk groups, with the node failed over from
    unread: int  # needs whose reading is missing


_FULL = _Tier(ejected=False, stale=False, shared=0, unread=0)


def build(
    snapshot: Snapshot, task: Task, settings: Settings, ejected: Callable[[int], bool]
) -> Pool:
    """Return the pool for a task; without rows if no node fits."""
    misses: list[Miss] = []
    tiers = _tiers(snapshot, task, settings, ejected, misses)
    if task.task_class in settings.fail_closed:
        for tier in [tier for tier in tiers if tier.ejected or tier.stale]:
            misses += _passed_over(snapshot, tier, _FULL, tiers.pop(tier))
    best = min(tiers, default=_FULL)
    for tier in sorted(tiers):
        if tier != best:
            misses += _passed_over(snapshot, tier, best, tiers[tier])
    rows = tiers.get(best, [])
    return Pool(
        mode=_mode(snapshot, tiers, best, settings),
        rows=rows,
        filtered=tallied(misses),
        relaxed=_relaxed(snapshot, task, settings, best, rows),
    )


def tallied(misses: Iterable[Miss]) -> tuple[Filtered, ...]:
    """Return what each rule left out, the one that left out most first."""
    found: dict[tuple[str, Plain, str], list[Example]] = {}
    for rule, limit, fault, node, value in misses:
        found.setdefault((rule, limit, fault), []).append(Example(node, value))
    entries = [
        Filtered(name, limit, len(examples), fault, tuple(examples[:_EXAMPLES]))
        for (name, limit, fault), examples in found.items()
    ]
    return tuple(sorted(entries, key=lambda entry: -entry.nodes))


def barred(snapshot: Snapshot, row: int) -> Miss | None:
    """Return why a node is never picked; None if it may be."""
    bar = standing.barred(
        snapshot.admin[row], snapshot.states[row], snapshot.slots[row]
    )
    if bar is None:
        return None
    fault = "have no slots" if bar == "slotless" else f"are {bar}"
    return Miss(bar, None, fault, snapshot.names[row], None)


def missed(snapshot: Snapshot, rule: Rule, row: int, value: Plain) -> Miss:
    """Return that a node fails a need."""
    return Miss(rule.name, rule.limit, rule.fault, snapshot.names[row], value)


def silenced(snapshot: Snapshot, row: int) -> Miss:
    """Return that a node is left out for its stale report."""
    return Miss("stale", None, "are stale", snapshot.names[row], None)


def thrown_out(name: str) -> Miss:
    """Return that a node is left out for its failures."""
    return Miss("ejected", None, "are ejected after failures", name, None)


def _tiers(
    snapshot: Snapshot,
    task: Task,
    settings: Settings,
    ejected: Callable[[int], bool],
    misses: list[Miss],
) -> dict[_Tier, list[int]]:
    rules = needs.rules(snapshot, task, settings.path_share)
    shared = needs.shared_groups(snapshot, task)
    tiers: dict[_Tier, list[int]] = {}
    for row in range(len(snapshot)):
        bar = barred(snapshot, row)
        if bar is not None:
            misses.append(bar)
            continue
        unread, fits = 0, True
        for rule in rules:
            value = rule.value(row)
            if value is None:
                unread += 1
            elif not rule.passes(value):
                fits = False
                misses.append(missed(snapshot, rule, row, value))
        if fits:
            stale = snapshot.states[row] is State.STALE
            tier = _Tier(ejected(row), stale, shared(row), unread)
            tiers.setdefault(tier, []).append(row)
    return tiers


def _passed_over(
    snapshot: Snapshot, tier: _Tier, best: _Tier, rows: Iterable[int]
) -> list[Miss]:
    names = [snapshot.names[row] for row in rows]
    if tier.ejected > best.ejected:
        return [thrown_out(name) for name in names]
    if tier.stale > best.stale:
        return [Miss("stale", None, "are stale", name, None) for name in names]
    if tier.shared > best.shared:
        fault = "share more risk groups with the node failed over from"
        return [
            Miss("failover_groups", best.shared, fault, name, tier.shared)
            for name in names
        ]
    fault = "have no reading for a need"
    return [Miss("unread", best.unread, fault, name, tier.unread) for name in names]


def _mode(
    snapshot: Snapshot,
    tiers: dict[_Tier, list[int]],
    best: _Tier,
    settings: Settings,
) -> Mode:
    if best.stale or best.ejected:
        return Mode.SPILL
    left = panic.remaining(
        (snapshot.states[row], capacity(snapshot.slots[row], snapshot.speed[row]))
        for tier, rows in tiers.items()
        if not tier.ejected
        for row in rows
    )
    return Mode.PANIC if left < settings.panic_below else Mode.NORMAL


def _relaxed(
    snapshot: Snapshot,
    task: Task,
    settings: Settings,
    best: _Tier,
    rows: Iterable[int],
) -> tuple[str, ...]:
    found: list[str] = []
    if best.ejected:
        found.append("ejected: no node fits that is not ejected after failures")
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
