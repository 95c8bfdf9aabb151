"""The fleet table as the balancer's snapshot: the one door between them."""

import numpy as np

from trimtab.balancer import Admin as AdminName
from trimtab.balancer import Snapshot
from trimtab.balancer import State as StateName

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
    n = len(fleet)
    inventories = [node.hello.inventory for node in fleet.nodes]
    headroom = {
        dimension: _maybe(fleet.headroom[:n, i])
        for i, dimension in enumerate(DIMENSIONS)
    }
    available = _maybe(fleet.readings[:n, COLUMN["memory.available"]])
    rtt_p95_us = _maybe(fleet.readings[:n, COLUMN["link.rtt_p95_us"]])
    return Snapshot(
        version=version,
        at=now,
        ids=tuple(node.hex_id for node in fleet.nodes),
        names=tuple(node.name for node in fleet.nodes),
        addresses=tuple(i.address for i in inventories),
        states=tuple(_STATES[code] for code in fleet.state[:n].tolist()),
        admin=tuple(_ADMIN[code] for code in fleet.admin[:n].tolist()),
        sampled_at=_maybe(fleet.sampled_at[:n]),
        **headroom,
        slots=tuple(_slots(i.slots, i.cpus) for i in inventories),
        speed=tuple(i.speed or 1.0 for i in inventories),
        cpus=tuple(i.cpus for i in inventories),
        memory_free_mib=tuple(
            None if share is None or i.memory_mib is None else share * i.memory_mib
            for share, i in zip(available, inventories, strict=True)
        ),
        gpus=(None,) * n,
        gpu_free_mib=(None,) * n,
        rtt_p95_ms=tuple(None if us is None else us / US_PER_MS for us in rtt_p95_us),
        labels=tuple(i.labels for i in inventories),
        groups=tuple(i.groups for i in inventories),
    )


def _maybe(column: np.ndarray) -> tuple[float | None, ...]:
    """Return the column with None for NaN."""
    return tuple(None if value != value else value for value in column.tolist())


def _slots(slots: int | None, cpus: int | None) -> int:
    if slots is not None:
        return slots
    return 1 if cpus is None else cpus
