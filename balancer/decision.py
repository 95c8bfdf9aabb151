"""The answer: which node, and why; or that none fits, and why not.

A decision keeps the numbers it was made of, and makes an explanation of them
only when somebody asks: that is why every one can be explained. It holds
nothing of the fleet, so that many can be kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from .failover import alternatives
from .pool import Filtered, Miss, Mode, tallied
from .seat import View
from .snapshot import State
from .task import Task

_EXPLAINED = 5  # candidates shown


class Candidate(NamedTuple):
    """A node that was compared, and what its cost was made of."""

    node: str
    state: State
    cost_ms: float  # expected time to an answer
    rtt_ms: float | None  # None: not read, the fleet's median was counted
    slowness: float  # time served over work, by outcomes; 1 is a nominal node
    stall: float  # factor for answers that are overdue; 1: none are
    failed: bool  # last, and has a task: the cost is 1000 times that
    in_flight: int  # our own leases before this one
    elsewhere: float  # counted in flight beside them
    slots: int
    speed: float  # nominal
    used: float  # share in use that was counted: faded, or the fleet's median
    headroom: float | None  # as read; None: not known, or not believed
    limiting: str | None  # the dimension that sets the headroom
    age_ms: float | None  # of the reading
    groups: tuple[str, ...]  # of shared risk

    def to_json(self) -> dict[str, Any]:
        """Return plain types, rounded for people."""
        return {
            "node": self.node,
            "state": self.state.value,
            "cost_ms": _rounded(self.cost_ms),
            "rtt_ms": _rounded(self.rtt_ms),
            "slowness": _rounded(self.slowness),
            "stall": _rounded(self.stall),
            "failed": self.failed,
            "in_flight": self.in_flight,
            "elsewhere": _rounded(self.elsewhere),
            "slots": self.slots,
            "speed": self.speed,
            "used": _rounded(self.used),
            "headroom": _rounded(self.headroom),
            "limiting": self.limiting,
            "age_ms": _rounded(self.age_ms),
            "groups": list(self.groups),
        }


class Alternative(NamedTuple):
    """Where to go next if the node fails."""

    node: str
    address: str | None


# Not frozen, which would make it several times as dear to build.
@dataclass(slots=True, eq=False)
class Decision:
    """A pick. It is a lease on the node until its outcome or its expiry."""

    id: str  # 16 hexadecimal digits
    node: str  # the name
    node_id: str
    address: str | None
    made_at: float
    ttl_s: float
    mode: Mode
    task: Task
    view: View  # of the node picked
    views: Sequence[View]  # those compared, it too; some twice
    costs_ms: Sequence[float]  # in the same order
    more: Sequence[View]  # others that fit, where few were compared
    looked_at: int  # nodes: drawn, or all of a small fleet
    misses: Sequence[Miss]  # of those drawn
    left_out: tuple[Filtered, ...]  # where all were looked at
    relaxed: tuple[str, ...]
    unused: tuple[str, ...]
    stuck: bool  # went where its sticky key went before
    snapshot: int  # the version decided on

    @property
    def expires_at(self) -> float:
        """When the lease may end by itself; it does within a second."""
        return self.made_at + self.ttl_s

    @property
    def score(self) -> float | None:
        """The node's headroom in what the task needs; None: not known."""
        reading = self.view.facts.believed(asks_gpu=self.task.asks_gpu)
        return None if reading is None else reading.room

    @property
    def compared(self) -> dict[View, float]:
        """The nodes compared, with their costs in ms, the least first."""
        costs = dict(zip(self.views, self.costs_ms, strict=True))
        picked = costs.pop(self.view)
        others = sorted(costs.items(), key=lambda each: each[1])
        return {self.view: picked, **dict(others)}

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """Where to go next, in this order."""
        views = [*self.compared, *self.more]
        following = alternatives(
            range(len(views)), [view.facts.groups for view in views]
        )
        named = (views[place].facts for place in following)
        return tuple(Alternative(known.name, known.address) for known in named)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The best of those compared, the picked one first."""
        best = islice(self.compared.items(), _EXPLAINED)
        return tuple(self._candidate(view, cost_ms) for view, cost_ms in best)

    @property
    def filtered(self) -> tuple[Filtered, ...]:
        """What each rule left out, of the nodes looked at."""
        return self.left_out or tallied(self.misses)

    def _candidate(self, view: View, cost_ms: float) -> Candidate:
        facts = view.facts
        reading = facts.believed(asks_gpu=self.task.asks_gpu)
        sampled_at = facts.sampled_at
        return Candidate(
            node=facts.name,
            state=facts.state,
            cost_ms=cost_ms,
            rtt_ms=facts.rtt_ms,
            slowness=view.slowness,
            stall=view.stall,
            failed=view.failed,
            in_flight=view.own,
            elsewhere=view.busy - view.own,
            slots=facts.slots,
            speed=facts.speed,
            used=view.used,
            headroom=None if reading is None else reading.room,
            limiting=None if reading is None else reading.limiting,
            age_ms=None if sampled_at is None else (self.made_at - sampled_at) * 1000,
            groups=facts.groups,
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain types; times are relative to when it was made."""
        return {
            "decision": self.id,
            "node": self.node,
            "address": self.address,
            "score": _rounded(self.score),
            "expires_ms": round(self.ttl_s * 1000),
            "alternatives": [other._asdict() for other in self.alternatives],
            "why": {
                "mode": self.mode.value,
                "task": self.task.to_json(),
                "candidates": [each.to_json() for each in self.candidates],
                "compared": len(self.compared),
                "looked_at": self.looked_at,
                "filtered": filtered_json(self.filtered),
                "relaxed": list(self.relaxed),
                "unused": list(self.unused),
                "sticky": self.stuck,
                "forecast": None,  # nothing forecast decides a single pick
                "snapshot": self.snapshot,
            },
        }


@dataclass(frozen=True, slots=True)
class NoFit:
    """No node may be picked for this task."""

    task: Task
    fleet: int  # nodes there are
    filtered: tuple[Filtered, ...]
    unused: tuple[str, ...]
    snapshot: int

    @property
    def sentence(self) -> str:
        """Why not, for people; a node may miss several needs."""
        if not self.fleet:
            return "No node fits: the fleet is empty."
        faults = "; ".join(
            f"{entry.nodes} of {self.fleet} {_said(entry)}" for entry in self.filtered
        )
        return f"No node fits: {faults}."

    def to_json(self) -> dict[str, Any]:
        """Return plain types."""
        return {
            "detail": self.sentence,
            "fleet": self.fleet,
            "task": self.task.to_json(),
            "filtered": filtered_json(self.filtered),
            "unused": list(self.unused),
            "snapshot": self.snapshot,
        }


def _said(entry: Filtered) -> str:
    verb, _, rest = entry.fault.partition(" ")
    if entry.nodes == 1:
        verb = {"have": "has", "are": "is"}.get(verb, f"{verb}s")
    return f"{verb} {rest}"


def filtered_json(filtered: Sequence[Filtered]) -> list[dict[str, Any]]:
    """Return plain types."""
    return [
        {
            "rule": entry.rule,
            "nodes": entry.nodes,
            "limit": entry.limit,
            "fault": entry.fault,
            "examples": [example._asdict() for example in entry.examples],
        }
        for entry in filtered
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
