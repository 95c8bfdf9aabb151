"""A node of the fleet as JSON: what a list shows, and all that is known."""

import math
from typing import Any

import numpy as np

from ..core import Collector
from ..fleet import Fleet
from ..health import DIMENSIONS
from ..node import Node
from ..readings import READINGS
from ..states import Admin, State
from .gpus import gpus
from .listing import SILENT


def summary(collector: Collector, row: int) -> dict[str, Any]:
    """Return what a list shows of a node."""
    fleet, now = collector.fleet, collector.clock.monotonic()
    known: Node = fleet.nodes[row]
    limiting = int(fleet.limiting[row])
    sampled_at = number(fleet.sampled_at[row])
    inventory = known.hello.inventory
    state = State(int(fleet.state[row]))
    silent = state in SILENT
    return {
        "node": known.name,
        "id": known.hex_id,
        "clone_of": known.clone_of,
        "state": state.name.lower(),
        "admin": Admin(int(fleet.admin[row])).name.lower(),
        "drain": _drain(fleet, row),
        "score": None if silent else number(fleet.score[row]),
        "confidence": None if silent else number(fleet.confidence[row]),
        "limiting": None if silent or limiting < 0 else DIMENSIONS[limiting],
        "headroom": _named(DIMENSIONS, fleet.headroom[row], silent=silent),
        "age_ms": None if sampled_at is None else round((now - sampled_at) * 1000),
        "signals": _named(READINGS, fleet.readings[row], silent=silent),
        "address": inventory.address,
        "site": inventory.site,
        "zone": inventory.zone,
        "operator": inventory.operator,
        "labels": dict(inventory.labels),
    }


def whole(collector: Collector, row: int) -> dict[str, Any]:
    """Return all that is known of a node."""
    return summary(collector, row) | _details(collector, row)


def _drain(fleet: Fleet, row: int) -> dict[str, Any] | None:
    drain = fleet.drains.get(row)
    if drain is None:
        return None
    return {
        "since": drain.since_unix_s,
        "until": drain.until_unix_s,
        "reason": drain.reason,
        "by": drain.by,
    }


def _named(
    names: tuple[str, ...], values: np.ndarray, *, silent: bool
) -> dict[str, float | None]:
    if silent:
        return dict.fromkeys(names)
    return dict(zip(names, map(number, values.tolist()), strict=True))


def _details(collector: Collector, row: int) -> dict[str, Any]:
    fleet, now = collector.fleet, collector.clock.monotonic()
    known = fleet.nodes[row]
    hello, inventory = known.hello, known.hello.inventory
    return {
        "state_for_s": round(now - float(fleet.state_since[row]), 1),
        "interval_ms": hello.interval_ms,
        "stale_after_ms": round(float(fleet.stale_after_s[row]) * 1000),
        "agent_version": hello.agent_version,
        "first_seen": known.first_seen,
        "last_seen": known.last_seen,
        "gaps": known.gaps,
        "links": [
            {
                "to": _target(inventory.targets, link.peer),
                "method": None if link.method is None else link.method.name.lower(),
                "rtt_us": link.rtt_us,
                "rtt_min_us": link.rtt_min_us,
                "rtt_p95_us": link.rtt_p95_us,
                "jitter_us": link.jitter_us,
                "loss": link.loss,
                "retransmits": link.retransmits,
            }
            for link in known.links
        ],
        "holes": [
            {
                "signal": hole.signal,
                "state": hole.state.name.lower(),
                "age_ms": hole.age_ms,
                "to": None
                if hole.peer is None
                else _target(inventory.targets, hole.peer),
            }
            for hole in known.holes
        ],
        "gpus": gpus(known),
        "mode": inventory.mode or "standard",
        "cpus": inventory.cpus,
        "cpu_quota": inventory.cpu_quota,
        "memory_limit_mib": inventory.memory_limit_mib,
        "memory_mib": inventory.memory_mib,
        "groups": list(inventory.groups),
        "holds": list(inventory.holds),
        "resources": dict(inventory.resources),
        "price": inventory.price,
        "slots": inventory.slots,
        "speed": inventory.speed,
    }


def _target(targets: tuple[str, ...], peer: int) -> str:
    if peer == 0:
        return "collector"
    return targets[peer - 1] if peer <= len(targets) else f"target {peer}"


def number(value: np.floating[Any] | float) -> float | None:
    """Return a column's value for people: six digits, None for no reading."""
    as_float = float(value)
    return float(f"{as_float:.6g}") if math.isfinite(as_float) else None
