"""The fleet table as the balancer's snapshot: the one door between them.

A snapshot is made several times a second, and most of a large fleet is in it
as it was in the one before. So the columns are kept as lists, and of each only
what changed is made anew: of numbers where the table differs from the copy
kept beside them, of inventories where a node said hello.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.balancer import Admin as AdminName
from trimtab.balancer import Snapshot
from trimtab.balancer import State as StateName
from trimtab.wire import Inventory

from .fleet import Fleet
from .health import DIMENSIONS
from .node import Node
from .readings import COLUMN
from .states import Admin, State

Rows = npt.NDArray[np.intp]

# The table holds codes, the snapshot names; the words are the same.
_STATES = [StateName(state.name.lower()) for state in State]
_ADMIN = [AdminName(admin.name.lower()) for admin in Admin]

US_PER_MS = 1000


class _Column:
    """A column of the snapshot, made from numbers of the table."""

    def __init__(self, shown: Callable[[list[Any]], list[Any]]) -> None:
        self._shown = shown
        self._copy: npt.NDArray[Any] = np.empty(0)
        self._list: list[Any] = []

    def renew(self, numbers: npt.NDArray[Any]) -> tuple[Any, ...]:
        """Return the column as of these numbers, one a node."""
        if len(numbers) != len(self._list):
            self._list = self._shown(numbers.tolist())
        else:
            # NaN differs from itself; two of them are no change.
            differ = (numbers != self._copy) & (
                (numbers == numbers) | (self._copy == self._copy)
            )
            changed = np.flatnonzero(differ)
            values = self._shown(numbers[changed].tolist())
            for place, value in zip(changed.tolist(), values, strict=True):
                self._list[place] = value
        self._copy = numbers
        return tuple(self._list)


class Snapshots:
    """Makes one snapshot after the other of the same fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._last = Snapshot.of(())
        self._rows: Rows = np.empty(0, dtype=np.intp)
        self._known: dict[str, list[Any]] = {name: [] for name in _OF_NODES}
        self._memory_mib: npt.NDArray[np.float64] = np.empty(0)
        self._numbers: dict[str, _Column] = {
            **{name: _Column(_maybe) for name in _NUMBERS},
            "states": _Column(lambda codes: [_STATES[code] for code in codes]),
            "admin": _Column(lambda codes: [_ADMIN[code] for code in codes]),
        }

    def renew(self, version: int, now: float) -> Snapshot:
        """Return the whole fleet as it is at `now`."""
        fleet = self._fleet
        rows = np.flatnonzero(fleet.there[: len(fleet.nodes)])
        same = not fleet.introduced and np.array_equal(rows, self._rows)
        if not same:
            self._renew_nodes(rows)
        columns = {
            name: self._numbers[name].renew(numbers)
            for name, numbers in self._table(rows).items()
        }
        if same:
            self._last = self._last.renewed(version, now, **columns)
        else:
            nodes = {name: tuple(column) for name, column in self._known.items()}
            self._last = Snapshot(version=version, at=now, **nodes, **columns)
        return self._last

    def _table(self, rows: Rows) -> dict[str, npt.NDArray[Any]]:
        fleet = self._fleet
        available = fleet.readings[rows, COLUMN["memory.available"]]
        rtt_p95_us = fleet.readings[rows, COLUMN["link.rtt_p95_us"]]
        return {
            "states": fleet.state[rows],
            "admin": fleet.admin[rows],
            "sampled_at": fleet.sampled_at[rows],
            **{name: fleet.headroom[rows, i] for i, name in enumerate(DIMENSIONS)},
            "memory_free_mib": available.astype(np.float64) * self._memory_mib,
            "gpu_free_mib": fleet.gpu_free_mib[rows],
            "rtt_p95_ms": rtt_p95_us.astype(np.float64) / US_PER_MS,
        }

    def _renew_nodes(self, rows: Rows) -> None:
        """Renew what is known from hellos: of new nodes, and of who said one."""
        fleet = self._fleet
        introduced, fleet.introduced = fleet.introduced, set()
        kept = len(self._rows)
        if kept > len(rows) or not np.array_equal(self._rows, rows[:kept]):
            kept = 0  # somebody went: every place after is another's
        known, more = self._known, len(rows) - kept
        for column in known.values():
            column[kept:] = [None] * more
        memory_mib = np.concatenate([self._memory_mib[:kept], np.full(more, np.nan)])
        again = np.flatnonzero(np.isin(rows[:kept], list(introduced))).tolist()
        for place in (*again, *range(kept, len(rows))):
            node = fleet.nodes[rows[place]]
            for name, of in _OF_NODES.items():
                known[name][place] = of(node)
            total_mib = _memory_mib(node.hello.inventory)
            memory_mib[place] = np.nan if total_mib is None else total_mib
        self._rows, self._memory_mib = rows, memory_mib


def _maybe(values: list[float]) -> list[float | None]:
    """Return the values with None for NaN."""
    return [None if value != value else value for value in values]


def _cpus(inventory: Inventory) -> float | None:
    """Return the CPUs that tasks can have: a quota may leave fewer."""
    known = [c for c in (inventory.cpus, inventory.cpu_quota) if c is not None]
    return min(known, default=None)


def _memory_mib(inventory: Inventory) -> int | None:
    """Return the memory that tasks can have: a limit may leave less."""
    known = [
        m for m in (inventory.memory_mib, inventory.memory_limit_mib) if m is not None
    ]
    return min(known, default=None)


def _slots(inventory: Inventory) -> int:
    if inventory.slots is not None:
        return inventory.slots
    return max(1, int(_cpus(inventory) or 1))


def _speed(inventory: Inventory) -> float:
    return 1.0 if inventory.speed is None else inventory.speed


_OF_NODES: dict[str, Callable[[Node], Any]] = {
    "ids": lambda node: node.hex_id,
    "names": lambda node: node.name,
    "addresses": lambda node: node.hello.inventory.address,
    "slots": lambda node: _slots(node.hello.inventory),
    "speed": lambda node: _speed(node.hello.inventory),
    "cpus": lambda node: _cpus(node.hello.inventory),
    "gpus": lambda node: len(node.hello.inventory.gpus) or None,
    "labels": lambda node: node.hello.inventory.labels,
    "groups": lambda node: node.hello.inventory.groups,
}
_NUMBERS: Sequence[str] = (
    "sampled_at",
    *DIMENSIONS,
    "memory_free_mib",
    "gpu_free_mib",
    "rtt_p95_ms",
)
