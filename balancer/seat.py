"""A seat: one node as one router sees it, with its cost kept ready.

A cost changes when work comes or goes, when the board hears something, with a
new snapshot, and slowly with time. Between those it is read, not computed:
that is what makes a pick cheap.
"""

from math import inf
from typing import NamedTuple

from .bus import Known, Part
from .snapshot import Snapshot, State
from .standing import measured
from .weights import Headroom, headroom

# A cost is computed anew after this, since beliefs fade.
FRESH_S = 0.5
STALLED_S = 0.05  # and after this while answers are overdue


class Facts(NamedTuple):
    """What the snapshot says of a node. None: not read."""

    id: str
    name: str
    address: str | None
    state: State
    slots: int
    speed: float
    rtt_ms: float | None
    sampled_at: float | None
    reading: Headroom | None  # of what every task needs; None: not believed
    gpu: float | None  # headroom
    groups: tuple[str, ...]  # of shared risk

    def believed(self, *, asks_gpu: bool) -> Headroom | None:
        """Return the headroom that counts for a task; None: not known."""
        if not asks_gpu:
            return self.reading
        if self.gpu is None or not measured(self.state):
            return None
        gpu = Headroom(self.gpu, "gpu")
        return gpu if self.reading is None else min(self.reading, gpu)


def facts(snapshot: Snapshot, row: int) -> Facts:
    """Return what the snapshot says of a row."""
    state, sampled_at = snapshot.states[row], snapshot.sampled_at[row]
    reading = None
    if sampled_at is not None and measured(state):
        reading = headroom(
            snapshot.cpu[row], snapshot.memory[row], snapshot.network[row]
        )
    return Facts(
        snapshot.ids[row],
        snapshot.names[row],
        snapshot.addresses[row],
        state,
        snapshot.slots[row],
        snapshot.speed[row],
        snapshot.rtt_p95_ms[row],
        sampled_at,
        reading,
        snapshot.gpu[row] if sampled_at is not None else None,
        snapshot.groups[row],
    )


class View(NamedTuple):
    """What a cost was made of."""

    facts: Facts
    rtt_ms: float  # counted
    slowness: float  # by outcomes
    stall: float  # the factor on it
    own: int  # our leases
    busy: float  # counted in flight, of all balancers
    used: float  # share in use by the reading, as far as trusted
    failed: bool  # last, and has a task: one at a time


class Seat:
    """One node; its cost holds `until` then."""

    __slots__ = (
        "base_ms",
        "busy",
        "facts",
        "id",
        "known",
        "part",
        "pull",
        "rest",
        "row",
        "rtt_ms",
        "seen_as",
        "slope",
        "slots",
        "slowness",
        "speed",
        "stall",
        "tasks",
        "trusted_until",
        "until",
        "used",
    )

    facts: Facts

    def __init__(self, ident: str, known: Known, part: Part) -> None:
        self.id = ident
        self.known = known
        self.part = part  # what the board holds of ours
        self.row = -1
        self.tasks = 0  # our open leases
        self.pull = 0.0  # the sum of 1 / work over them, per ms
        self.rest = 0.0  # what answers say is in flight and not ours
        # From the snapshot.
        self.slots, self.speed, self.rtt_ms = 1, 1.0, 0.0
        self.used = 0.0  # share of the node in use, as read and as far as trusted
        self.trusted_until = -inf
        # What the cost is made of, and the cost: base + slope · work.
        self.slowness, self.stall, self.busy = 1.0, 1.0, 0.0
        self.base_ms = self.slope = 0.0
        self.until = -inf  # when the cost is to be computed anew; now, if events say
        self.seen_as: View | None = None  # kept for explanations
        known.watchers.append(self)

    def view(self) -> View:
        """Return what the cost is made of now."""
        if self.seen_as is None:
            self.seen_as = View(
                self.facts,
                self.rtt_ms,
                self.slowness,
                self.stall,
                self.tasks,
                self.busy,
                self.used,
                self.known.suspect and self.busy >= 1,
            )
        return self.seen_as
