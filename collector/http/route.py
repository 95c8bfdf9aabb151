"""POST /v1/route and /v1/outcomes, GET /v1/decisions/{decision}."""

import asyncio
from typing import Any, NamedTuple

from aiohttp import web

from trimtab.balancer import BadTask, Closing, NoFit, Outcome, parse_task

from ..core import COLLECTOR, Collector
from .body import read_json
from .parameters import only
from .problems import Problem

MOST_TASKS = 1000
MOST_OUTCOMES = 1000
# Between so many of a batch the loop gets its turn.
_AT_ONCE = 50


async def route(request: web.Request) -> web.Response:
    """Answer where a task should go, and open its lease; 409 if nowhere.

    Of a batch every task has its own answer, a decision or a problem.
    """
    only(request)
    collector = request.app[COLLECTOR]
    body = await read_json(request)
    if isinstance(body, dict) and "tasks" in body:
        return web.json_response({"decisions": await _batch(collector, body)})
    return web.json_response(_routed(collector, body))


async def _batch(collector: Collector, body: dict[str, Any]) -> list[dict[str, Any]]:
    tasks = body["tasks"]
    if len(body) > 1 or not isinstance(tasks, list):
        raise Problem(400, 'expected {"tasks": […]} and nothing beside', "bad-task")
    if len(tasks) > MOST_TASKS:
        raise Problem(400, f"at most {MOST_TASKS} tasks, got {len(tasks)}", "bad-task")
    answers: list[dict[str, Any]] = []
    for index, task in enumerate(tasks):
        if index % _AT_ONCE == 0:
            await asyncio.sleep(0)
        try:
            answers.append(_routed(collector, task))
        except Problem as problem:
            answers.append({"problem": problem.document()})
    return answers


def _routed(collector: Collector, wanted: object) -> dict[str, Any]:
    try:
        task = parse_task(wanted)
    except BadTask as exc:
        raise Problem(
            400,
            str(exc),
            "bad-task",
            problems=[p._asdict() for p in exc.problems],
        ) from exc
    made = collector.router.route(task, collector.clock.monotonic())
    if isinstance(made, NoFit):
        collector.decided.note(None, collector.clock.unix())
        no_fit = made.to_json()
        detail = str(no_fit.pop("detail"))
        raise Problem(409, detail, "no-fit", why=no_fit)
    collector.decided.note(made, collector.clock.unix())
    return made.to_json()


async def decision(request: web.Request) -> web.Response:
    """Answer a decision again, as it was made."""
    only(request)
    collector = request.app[COLLECTOR]
    wanted = request.match_info["decision"]
    found = collector.router.decision(wanted)
    if found is not None:
        return web.json_response(found.to_json())
    stored = None
    if wanted.isascii():  # as all are
        stored = await asyncio.to_thread(collector.store.decision, wanted)
    if stored is None:
        raise Problem(
            404,
            f"no decision {wanted[:80]!r} is remembered: there was none, or it is "
            "older than the ones kept",
            "no-decision",
        )
    return web.json_response(text=stored)


async def outcomes(request: web.Request) -> web.Response:
    """Close leases; where one outcome is wrong, none is taken."""
    only(request)
    collector = request.app[COLLECTOR]
    body = await read_json(request)
    entries = body if isinstance(body, list) else [body]
    if len(entries) > MOST_OUTCOMES:
        raise Problem(
            400,
            f"at most {MOST_OUTCOMES} outcomes, got {len(entries)}",
            "bad-outcome",
        )
    parsed = [_outcome(entry, f"outcome {i}") for i, entry in enumerate(entries)]
    now = collector.clock.monotonic()
    closings = {
        said.ident: collector.router.close(
            said.ident,
            said.outcome,
            now,
            service_ms=said.service_ms,
            node_inflight=said.node_inflight,
        )
        for said in parsed
    }
    return web.json_response(
        {
            "closed": sum(c is Closing.CLOSED for c in closings.values()),
            "unknown": [i for i, c in closings.items() if c is Closing.UNKNOWN],
        }
    )


MEASURES = ("latency_ms", "service_ms", "transfer_mib", "transfer_ms")
COUNTS = ("node_inflight",)
_FIELDS = ("decision", "outcome", *MEASURES, *COUNTS)
MOST_MEASURE = 1e12


class Said(NamedTuple):
    """One outcome, as far as the router counts it."""

    ident: str
    outcome: Outcome
    service_ms: float | None
    node_inflight: int | None


def _outcome(entry: object, where: str) -> Said:
    if not isinstance(entry, dict):
        raise Problem(400, f"{where}: expected an object", "bad-outcome")
    unknown = sorted(set(entry) - set(_FIELDS))
    if unknown:
        raise Problem(
            400,
            f"{where}: unknown field {unknown[0][:40]!r}; there are: "
            f"{', '.join(_FIELDS)}",
            "bad-outcome",
        )
    ident, word = entry.get("decision"), entry.get("outcome")
    if not isinstance(ident, str) or word not in tuple(Outcome):
        raise Problem(
            400,
            f"{where}: expected decision (its id) and outcome, one of "
            f"{', '.join(Outcome)}",
            "bad-outcome",
        )
    for name in (*MEASURES, *COUNTS):
        value = entry.get(name)
        if value is not None and not _counts(value, whole=name in COUNTS):
            kind = "a whole number" if name in COUNTS else "a number"
            raise Problem(
                400,
                f"{where}: {name}: expected {kind}, 0 to {MOST_MEASURE:g}",
                "bad-outcome",
            )
    return Said(
        ident, Outcome(word), entry.get("service_ms"), entry.get("node_inflight")
    )


def _counts(value: object, *, whole: bool) -> bool:
    """Whether it is a finite number from 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if whole and not isinstance(value, int):
        return False
    return 0 <= value <= MOST_MEASURE
