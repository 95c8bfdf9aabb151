"""POST /v1/route and /v1/outcomes, GET /v1/decisions/{decision}."""

import json
from typing import Any

from aiohttp import web

from trimtab.balancer import BadTask, Closing, NoFit, Outcome, parse_task

from ..core import COLLECTOR
from .body import read_body
from .problems import Problem

MOST_OUTCOMES = 1000


async def route(request: web.Request) -> web.Response:
    """Answer where one task should go, and open its lease; 409 if nowhere."""
    collector = request.app[COLLECTOR]
    try:
        task = parse_task(await _body(request))
    except BadTask as exc:
        raise Problem(
            400,
            str(exc),
            "bad-task",
            problems=[p._asdict() for p in exc.problems],
        ) from exc
    decision = collector.router.route(task, collector.clock.monotonic())
    if isinstance(decision, NoFit):
        collector.decisions["none"] += 1
        no_fit = decision.to_json()
        detail = str(no_fit.pop("detail"))
        raise Problem(409, detail, "no-fit", why=no_fit)
    collector.decisions[decision.mode.value] += 1
    return web.json_response(decision.to_json())


async def decision(request: web.Request) -> web.Response:
    """Answer a decision again, as it was made."""
    wanted = request.match_info["decision"]
    found = request.app[COLLECTOR].router.decision(wanted)
    if found is None:
        raise Problem(
            404,
            f"no decision {wanted[:80]!r} is remembered: there was none, or it is "
            "older than the ones kept",
            "no-decision",
        )
    return web.json_response(found.to_json())


async def outcomes(request: web.Request) -> web.Response:
    """Close leases; an outcome that is wrong closes none of the others."""
    collector = request.app[COLLECTOR]
    body = await _body(request)
    entries = body if isinstance(body, list) else [body]
    if len(entries) > MOST_OUTCOMES:
        raise Problem(400, f"at most {MOST_OUTCOMES} outcomes, got {len(entries)}")
    parsed = [_outcome(entry, f"outcome {i}") for i, entry in enumerate(entries)]
    now = collector.clock.monotonic()
    closings = {
        ident: collector.router.close(ident, outcome, now) for ident, outcome in parsed
    }
    return web.json_response(
        {
            "closed": sum(c is Closing.CLOSED for c in closings.values()),
            "unknown": [i for i, c in closings.items() if c is Closing.UNKNOWN],
        }
    )


_MEASURES = (
    "latency_ms",
    "service_ms",
    "node_inflight",
    "transfer_mib",
    "transfer_ms",
)


def _outcome(entry: object, where: str) -> tuple[str, Outcome]:
    if not isinstance(entry, dict):
        raise Problem(400, f"{where}: expected an object", "bad-outcome")
    unknown = sorted(set(entry) - {"decision", "outcome", *_MEASURES})
    if unknown:
        raise Problem(400, f"{where}: unknown field {unknown[0][:40]!r}", "bad-outcome")
    ident, word = entry.get("decision"), entry.get("outcome")
    if not isinstance(ident, str) or word not in tuple(Outcome):
        raise Problem(
            400,
            f"{where}: expected decision (its id) and outcome, one of "
            f"{', '.join(Outcome)}",
            "bad-outcome",
        )
    for name in _MEASURES:
        value = entry.get(name)
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (good and 0 <= value <= 1e12):
            raise Problem(
                400, f"{where}: {name}: expected a number from 0", "bad-outcome"
            )
    return ident, Outcome(word)


async def _body(request: web.Request) -> Any:
    """Return the JSON body. Any content type: curl says it is a form."""
    raw = await read_body(request)
    try:
        return json.loads(raw or b"{}")
    except (ValueError, RecursionError) as exc:
        raise Problem(400, f"the body is not JSON: {exc}"[:300]) from exc
