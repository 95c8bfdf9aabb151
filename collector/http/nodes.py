"""GET /v1/nodes, /v1/nodes/{node} and its history."""

import asyncio
import math
from typing import Any

import numpy as np
from aiohttp import web

from ..core import COLLECTOR, Collector
from ..health import DIMENSIONS
from ..node import Node
from ..readings import READINGS
from ..rollup import COUNT, GREATEST, LEAST, SERIES, SUM, merge
from ..states import Admin, State
from ..store import MinuteRow
from .gpus import gpus
from .problems import Problem

HOUR_S = 3600
MINUTE_S = 60
MOST_STEPS = 10_000


async def nodes(request: web.Request) -> web.Response:
    """Answer every node, by name."""
    collector = request.app[COLLECTOR]
    _only(request, set())
    rows = sorted(
        collector.fleet.rows(), key=lambda row: collector.fleet.nodes[row].name
    )
    return web.json_response(
        {"nodes": [summary(collector, row) for row in rows], "next": None}
    )


async def node(request: web.Request) -> web.Response:
    """Answer one node, with all that is known of it."""
    collector = request.app[COLLECTOR]
    _only(request, set())
    row = find(request)
    return web.json_response(summary(collector, row) | _details(collector, row))


async def history(request: web.Request) -> web.Response:
    """Answer the node's minutes between two Unix times, merged into steps."""
    collector = request.app[COLLECTOR]
    _only(request, {"since", "until", "step"})
    row = find(request)
    now = collector.clock.unix()
    until_s = _seconds(request, "until", now)
    since_s = _seconds(request, "since", until_s - HOUR_S)
    step_s = _seconds(request, "step", MINUTE_S)
    if step_s < MINUTE_S or step_s % MINUTE_S:
        raise Problem(400, f"step: expected a multiple of 60 seconds, got {step_s:g}")
    if since_s >= until_s:
        raise Problem(400, f"since {since_s:g} is not before until {until_s:g}")
    if (until_s - since_s) / step_s > MOST_STEPS:
        raise Problem(400, f"more than {MOST_STEPS} steps: raise step or since")
    width = int(step_s // MINUTE_S)
    first = int(since_s // step_s) * width
    known = collector.fleet.nodes[row]
    last = math.ceil(until_s / MINUTE_S)

    def merged() -> dict[str, Any]:
        return _steps(collector.store.minutes(known.shown_id, first, last), width)

    # Reading and merging weeks takes a while: not on the loop.
    steps = await asyncio.to_thread(merged)
    return web.json_response({"node": known.name, "step_s": int(step_s), **steps})


def _steps(minutes: list[MinuteRow], width: int) -> dict[str, Any]:
    """Return the minutes as columns; a step without samples is left out."""
    steps: dict[int, MinuteRow] = {}
    for minute in minutes:
        step = minute.minute // width
        held = steps.get(step)
        sums = minute.sums if held is None else merge(held.sums, minute.sums)
        steps[step] = MinuteRow(step * width, sums)
    ordered = [steps[step] for step in sorted(steps)]
    series: dict[str, dict[str, list[float | None]]] = {}
    for index, name in enumerate(SERIES):
        cells = [
            s.sums.series[index] if index < len(s.sums.series) else None
            for s in ordered
        ]
        known = [None if c is None or not c[COUNT] else c for c in cells]
        series[name] = {
            "mean": [None if c is None else float(c[SUM] / c[COUNT]) for c in known],
            "min": [None if c is None else float(c[LEAST]) for c in known],
            "max": [None if c is None else float(c[GREATEST]) for c in known],
        }
    return {
        "time": [s.minute * MINUTE_S for s in ordered],
        "samples": [s.sums.samples for s in ordered],
        "series": series,
    }


def find(request: web.Request) -> int:
    """Return the row of the path's {node}; 404 if there is none."""
    wanted = request.match_info["node"]
    row = request.app[COLLECTOR].fleet.find(wanted)
    if row is None:
        raise Problem(404, f"no node has the name or id {wanted[:80]!r}", "no-node")
    return row


def summary(collector: Collector, row: int) -> dict[str, Any]:
    """Return what a list shows of a node."""
    fleet, now = collector.fleet, collector.clock.monotonic()
    known: Node = fleet.nodes[row]
    limiting = int(fleet.limiting[row])
    sampled_at = number(fleet.sampled_at[row])
    inventory = known.hello.inventory
    state = State(int(fleet.state[row]))
    # What a node said before it fell silent for good is no reading any more.
    silent = state in (State.LOST, State.SLEEPING)
    return {
        "node": known.name,
        "id": known.hex_id,
        "clone_of": known.clone_of,
        "state": state.name.lower(),
        "admin": Admin(int(fleet.admin[row])).name.lower(),
        "score": None if silent else number(fleet.score[row]),
        "confidence": None if silent else number(fleet.confidence[row]),
        "limiting": None if silent or limiting < 0 else DIMENSIONS[limiting],
        "headroom": {
            dimension: None if silent else number(fleet.headroom[row, i])
            for i, dimension in enumerate(DIMENSIONS)
        },
        "age_ms": None if sampled_at is None else round((now - sampled_at) * 1000),
        "signals": {
            name: None if silent else number(fleet.readings[row, i])
            for i, name in enumerate(READINGS)
        },
        "address": inventory.address,
        "site": inventory.site,
        "zone": inventory.zone,
        "operator": inventory.operator,
        "labels": dict(inventory.labels),
    }


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


def _seconds(request: web.Request, name: str, default: float) -> float:
    text = request.query.get(name)
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < 1e11:
        raise Problem(400, f"{name}: expected seconds, got {text[:40]!r}")
    return seconds


def _only(request: web.Request, allowed: set[str]) -> None:
    unknown = sorted(set(request.query) - allowed)
    if unknown:
        takes = ", ".join(sorted(allowed)) or "none"
        raise Problem(
            400, f"unknown parameter {unknown[0][:40]!r}; this route takes: {takes}"
        )
