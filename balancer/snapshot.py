"""The snapshot: an immutable, columnar picture of the fleet at one instant.

The one door between whoever watches the fleet and the router: one tuple per
column, all of one length, so that a column is built in one go from an array
and read by row number. Times are seconds on the clock that the router is asked
with. None is "no reading", never zero. What no rule reads is not in here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from math import inf
from typing import Any, NamedTuple, Self


class State(StrEnum):
    """What is known of a node, by its reports."""

    JOINING = "joining"  # too few readings to say
    HEALTHY = "healthy"
    STRAINED = "strained"
    SATURATED = "saturated"  # at or past the knee
    STALE = "stale"  # silent for longer than it said it may be
    LOST = "lost"  # silent for long
    SLEEPING = "sleeping"  # said so before it fell silent
    UNKNOWN = "unknown"  # heard of, without a usable reading


class Admin(StrEnum):
    """What the operator wants of a node."""

    ACTIVE = "active"
    DRAINING = "draining"  # takes nothing new, still finishing
    DRAINED = "drained"
    TOMBSTONED = "tombstoned"  # removed, and not to come back by itself


class Node(NamedTuple):
    """One row; the fields are the columns of a snapshot, in their order."""

    id: str  # leases are kept under it; 32 hexadecimal digits
    name: str  # what people see
    address: str | None = None  # where its tasks go, HOST:PORT
    state: State = State.HEALTHY
    admin: Admin = Admin.ACTIVE
    sampled_at: float | None = None  # of the newest reading; None: none yet
    cpu: float | None = None  # headroom, 0.0 at or past the knee, 1.0 idle
    memory: float | None = None
    network: float | None = None
    gpu: float | None = None
    slots: int = 1  # tasks served at once; 0: takes none
    speed: float = 1.0  # relative to a nominal node, above 0
    cpus: float | None = None  # usable ones, all of them
    memory_free_mib: float | None = None
    gpus: int | None = None  # devices; None: not known
    gpu_free_mib: float | None = None  # the most that is free on one device
    rtt_p95_ms: float | None = None  # on the agent's own link
    labels: Mapping[str, str] = {}
    groups: tuple[str, ...] = ()  # shared risk: fibre, power, rack, operator


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The fleet as columns. ValueError if it can't be one."""

    version: int  # grows with each snapshot
    at: float  # when it was taken
    ids: tuple[str, ...]
    names: tuple[str, ...]
    addresses: tuple[str | None, ...]
    states: tuple[State, ...]
    admin: tuple[Admin, ...]
    sampled_at: tuple[float | None, ...]
    cpu: tuple[float | None, ...]
    memory: tuple[float | None, ...]
    network: tuple[float | None, ...]
    gpu: tuple[float | None, ...]
    slots: tuple[int, ...]
    speed: tuple[float, ...]
    cpus: tuple[float | None, ...]
    memory_free_mib: tuple[float | None, ...]
    gpus: tuple[int | None, ...]
    gpu_free_mib: tuple[float | None, ...]
    rtt_p95_ms: tuple[float | None, ...]
    labels: tuple[Mapping[str, str], ...]
    groups: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        lengths = {f.name: len(getattr(self, f.name)) for f in fields(self)[2:]}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns of one length expected, got {lengths}")
        if len(self.by_id) != len(self):
            raise ValueError("each id once expected, got one twice")
        if not all(0 < speed < inf for speed in self.speed):
            raise ValueError("speeds above 0 expected, got one that is not")
        if not all(slots >= 0 for slots in self.slots):
            raise ValueError("slots of 0 or more expected, got one below")

    @classmethod
    def of(cls, nodes: Iterable[Node], version: int = 0, at: float = 0.0) -> Self:
        """Build the columns from rows."""
        columns: list[Any] = list(zip(*nodes, strict=True))
        return cls(version, at, *(columns or [()] * len(Node._fields)))

    def renewed(self, version: int, at: float, **columns: tuple[Any, ...]) -> Self:
        """Return the same nodes with these columns; ValueError on another length.

        What was checked, and the index of ids and names, goes on as it is: so
        none of these columns may be ids, names, speed, slots or groups.
        """
        if any(len(column) != len(self) for column in columns.values()):
            raise ValueError(f"columns of {len(self)} rows expected")
        fresh = object.__new__(type(self))
        fresh.__dict__.update(self.__dict__, version=version, at=at, **columns)
        return fresh

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def by_id(self) -> Mapping[str, int]:
        """The row of each id."""
        return {node: row for row, node in enumerate(self.ids)}

    @cached_property
    def by_name(self) -> Mapping[str, int]:
        """The row of each name; the first one where two share it."""
        rows: dict[str, int] = {}
        for row, name in enumerate(self.names):
            rows.setdefault(name, row)
        return rows

    @cached_property
    def group_names(self) -> frozenset[str]:
        """Every risk group that a node is in."""
        return frozenset(group for groups in self.groups for group in groups)

    def row(self, node: str) -> int | None:
        """Return the row of a node by its id or its name; None: not here."""
        row = self.by_id.get(node)
        return self.by_name.get(node) if row is None else row
