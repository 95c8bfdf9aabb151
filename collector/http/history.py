"""GET /v1/nodes/{node}/history: the past in equal steps, for plots.

Steps of less than an hour come from minutes, which are kept for days; steps
of whole hours from hours, which are kept for a year, and from the minutes of
the last hours, which are not merged yet.
"""

import asyncio
import math
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from ..core import COLLECTOR
from ..rollup import COUNT, GREATEST, LEAST, SERIES, SUM, merge
from ..store import Slice, Store
from .nodes import find
from .parameters import only, seconds
from .problems import Problem

HOUR_S = 3600
MINUTE_S = 60
MOST_STEPS = 10_000


async def history(request: web.Request) -> web.Response:
    """Answer the node's samples between two Unix times, merged into steps."""
    collector = request.app[COLLECTOR]
    only(request, "since", "until", "step")
    row = find(request)
    until_s = seconds(request, "until", collector.clock.unix())
    since_s = seconds(request, "since", until_s - HOUR_S)
    step_s = seconds(request, "step", MINUTE_S)
    if step_s < MINUTE_S or step_s % MINUTE_S:
        raise Problem(400, f"step: expected a multiple of 60 seconds, got {step_s:g}")
    if since_s >= until_s:
        raise Problem(400, f"since {since_s:g} is not before until {until_s:g}")
    if (until_s - since_s) / step_s > MOST_STEPS:
        raise Problem(400, f"more than {MOST_STEPS} steps: raise step or since")
    width = int(step_s // MINUTE_S)
    first = int(since_s // step_s) * width
    last = math.ceil(until_s / MINUTE_S)
    known = collector.fleet.nodes[row]
    slices = _hours if step_s % HOUR_S == 0 else Store.minutes

    def merged() -> dict[str, Any]:
        return _steps(slices(collector.store, known.shown_id, first, last), width)

    # Reading and merging weeks takes a while: not on the loop.
    steps = await asyncio.to_thread(merged)
    return web.json_response({"node": known.name, "step_s": int(step_s), **steps})


def _hours(store: Store, node_id: bytes, first: int, last: int) -> list[Slice]:
    hours = store.hours(node_id, first, last)
    minutes = HOUR_S // MINUTE_S
    merged_to = max((hour.minute + minutes for hour in hours), default=first)
    return hours + store.minutes(node_id, merged_to, last)


def _steps(slices: Iterable[Slice], width: int) -> dict[str, Any]:
    """Return the slices as columns; a step without samples is left out."""
    steps: dict[int, Slice] = {}
    for each in slices:
        step = each.minute // width
        held = steps.get(step)
        sums = each.sums if held is None else merge(held.sums, each.sums)
        steps[step] = Slice(step * width, sums)
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
