"""The fleet table as the balancer's snapshot: the one door between them."""

import numpy as np

from trimtab.balancer import Admin as AdminName
from trimtab.balancer import Snapshot
from trimtab.balancer import State as StateName
from trimtab.wire import GpuHealth, Gpus, GpuState, Inventory

from .fleet import Fleet
from .health import DIMENSIONS
from .readings import COLUMN
from .states import Admin, State

# The table holds codes, the snapshot names; the words are the same.
_STATES = [StateName(state.name.lower()) for state in State]
_ADMIN = [AdminName(admin.name.lower()) for admin in Admin]

US_PER_MS = 1000


def snapshot(fleet: Fleet, version: int, now: float) -> Snapshot:
    """Return the whole fleet as it is at `now`."""
    rows = fleet.rows()
    nodes = [fleet.nodes[row] for row in rows]
    inventories = [node.hello.inventory for node in nodes]
    headroom = {
        dimension: _maybe(fleet.headroom[rows, i])
        for i, dimension in enumerate(DIMENSIONS)
    }
    available = _maybe(fleet.readings[rows, COLUMN["memory.available"]])
    rtt_p95_us = _maybe(fleet.readings[rows, COLUMN["link.rtt_p95_us"]])
    return Snapshot(
        version=version,
        at=now,
        ids=tuple(node.hex_id for node in nodes),
        names=tuple(node.name for node in nodes),
        addresses=tuple(i.address for i in inventories),
        states=tuple(_STATES[code] for code in fleet.state[rows].tolist()),
        admin=tuple(_ADMIN[code] for code in fleet.admin[rows].tolist()),
        sampled_at=_maybe(fleet.sampled_at[rows]),
        **headroom,
        slots=tuple(_slots(i) for i in inventories),
        speed=tuple(1.0 if i.speed is None else i.speed for i in inventories),
        cpus=tuple(_cpus(i) for i in inventories),
        memory_free_mib=tuple(
            None if share is None or memory is None else share * memory
            for share, memory in zip(
                available, map(_memory_mib, inventories), strict=True
            )
        ),
        gpus=tuple(len(i.gpus) or None for i in inventories),
        gpu_free_mib=tuple(_gpu_free_mib(node.gpus) for node in nodes),
        rtt_p95_ms=tuple(None if us is None else us / US_PER_MS for us in rtt_p95_us),
        labels=tuple(i.labels for i in inventories),
        groups=tuple(i.groups for i in inventories),
    )


def _maybe(column: np.ndarray) -> tuple[float | None, ...]:
    """Return the column with None for NaN."""
    return tuple(None if value != value else value for value in column.tolist())


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


def _gpu_free_mib(gpus: Gpus | None) -> float | None:
    """Return the most that is free on one device that may be given work."""
    if gpus is None or gpus.state not in (GpuState.OK, GpuState.STALLED):
        return None
    free = [
        float(gpu.free_mib)
        for gpu in gpus.devices
        if gpu.free_mib is not None and gpu.health is not GpuHealth.ZERO
    ]
    return max(free, default=None)
