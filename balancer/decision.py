"""The answer: which node, and why; or that none fits, and why not.

Both are values that hold nothing of the fleet, so that many can be kept, and
both turn into plain JSON types.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .pool import Filtered, Mode
from .snapshot import State
from .task import Task


class Candidate(NamedTuple):
    """A node that was compared, and what its cost was made of."""

    node: str
    state: State
    cost_ms: float  # expected time to an answer
    rtt_ms: float | None  # None: not read, the pool's median was counted
    in_flight: int  # our own leases before this one
    others: float  # slots that others keep busy
    slots: int
    speed: float
    weight: float  # share of draws, relative to other nodes
    headroom: float | None  # as read; None: not known, or not believed
    credited: float  # the headroom counted: faded, or the pool's median
    limiting: str | None  # the dimension that sets the headroom
    age_ms: float | None  # of the reading

    def to_json(self) -> dict[str, Any]:
        """Return plain types, rounded for people."""
        return {
            "node": self.node,
            "state": self.state.value,
            "cost_ms": _rounded(self.cost_ms),
            "rtt_ms": _rounded(self.rtt_ms),
            "in_flight": self.in_flight,
            "others": _rounded(self.others),
            "slots": self.slots,
            "speed": self.speed,
            "weight": _rounded(self.weight),
            "headroom": _rounded(self.headroom),
            "credited": _rounded(self.credited),
            "limiting": self.limiting,
            "age_ms": _rounded(self.age_ms),
        }


class Alternative(NamedTuple):
    """Where to go next if the node fails."""

    node: str
    address: str | None


@dataclass(frozen=True, slots=True)
class Decision:
    """A pick. It is a lease on the node until its outcome or its expiry."""

    id: str  # 16 hexadecimal digits
    node: str  # the name
    node_id: str
    address: str | None
    score: float | None  # headroom in what the task needs; None: not known
    made_at: float
    ttl_s: float
    alternatives: tuple[Alternative, ...]
    mode: Mode
    task: Task
    candidates: tuple[Candidate, ...]  # the best of those compared, best first
    compared: int
    fitting: int  # nodes that there were to draw from
    filtered: tuple[Filtered, ...]
    relaxed: tuple[str, ...]
    unused: tuple[str, ...]
    snapshot: int  # the version decided on

    @property
    def expires_at(self) -> float:
        """When the lease ends by itself."""
        return self.made_at + self.ttl_s

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
                "compared": self.compared,
                "fitting": self.fitting,
                "filtered": _filtered_json(self.filtered),
                "relaxed": list(self.relaxed),
                "unused": list(self.unused),
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
            "filtered": _filtered_json(self.filtered),
            "unused": list(self.unused),
            "snapshot": self.snapshot,
        }


def _said(entry: Filtered) -> str:
    verb, _, rest = entry.fault.partition(" ")
    if entry.nodes == 1:
        verb = {"have": "has", "are": "is"}.get(verb, f"{verb}s")
    return f"{verb} {rest}"


def _filtered_json(filtered: Sequence[Filtered]) -> list[dict[str, Any]]:
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
