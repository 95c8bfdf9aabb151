"""GET /v1/events: what happens in the fleet, as it happens or page by page.

Server-sent events (HTML, 9.2): id, event, data. Last-Event-ID or `after` says
which was the last one seen, over restarts of the collector too. What is no
longer kept is told by an event `gap`, never passed over in silence. Who asks
for JSON gets a page, and may wait for the first event of it.
"""

import asyncio
import json
from contextlib import suppress
from typing import Any

from aiohttp import hdrs, web

from ..core import COLLECTOR
from ..events import Event, Events
from . import request_id
from .parameters import one, only, seconds, whole
from .problems import Problem

HEARTBEAT_S = 15.0
# A reader that takes nothing for so long is cut off: it can resume.
SLOW_S = 10.0
MOST_STREAMS = 64
RETRY_MS = 2000
AT_ONCE = 100
DEFAULT_LIMIT, MOST = 100, 1000
LONGEST_WAIT_S = 30.0
GAP = "gap"
LAST_EVENT_ID = "Last-Event-ID"
MOST_IDENT = 2**53 - 1  # the numbers that every language can hold
_LOOK_S = 1.0  # how soon it is seen that a reader has gone


class Streams:
    """Those who follow the events now; bounded, and ended at shutdown."""

    def __init__(self) -> None:
        self.open = 0
        self.ending = asyncio.Event()

    async def end(self, app: web.Application) -> None:
        """Let every stream end at once."""
        del app
        self.ending.set()

    def enter(self) -> None:
        """Count one more; Problem 503 if there are too many."""
        if self.open >= MOST_STREAMS:
            raise Problem(
                503,
                f"{MOST_STREAMS} requests follow the events already",
                headers={"Retry-After": "5"},
            )
        self.open += 1


STREAMS: web.AppKey[Streams] = web.AppKey("streams", Streams)


async def events(request: web.Request) -> web.StreamResponse:
    """Answer a stream, or a page of JSON."""
    only(request, "after", "limit", "wait")
    after = _after(request)
    if "wait" in request.query or "limit" in request.query or _wants_json(request):
        return await _page(request, after)
    return await _stream(request, after)


async def _page(request: web.Request, after: int | None) -> web.Response:
    log, streams = request.app[COLLECTOR].events, request.app[STREAMS]
    limit = whole(request, "limit", DEFAULT_LIMIT, 1, MOST)
    wait_s = seconds(request, "wait", 0.0)
    if wait_s > LONGEST_WAIT_S:
        raise Problem(400, f"wait: expected seconds, at most {LONGEST_WAIT_S:g}")
    # Without a number to go on from: the newest.
    seen = max(log.newest - limit, log.oldest - 1) if after is None else after
    if wait_s and seen == log.newest:
        streams.enter()
        try:
            await _news(request, seen, wait_s)
        finally:
            streams.open -= 1
    found = _past(log, seen, limit, request.app[COLLECTOR].clock.unix())
    return web.json_response(
        {"events": found, "next": found[-1]["id"] if found else seen}
    )


async def _stream(request: web.Request, after: int | None) -> web.StreamResponse:
    streams = request.app[STREAMS]
    streams.enter()
    try:
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",  # nginx would wait for more
                request_id.HEADER: request_id.current(),
            }
        )
        await response.prepare(request)
        with suppress(ConnectionError):
            await _follow(request, response, after)
        return response
    finally:
        streams.open -= 1


async def _follow(
    request: web.Request, response: web.StreamResponse, after: int | None
) -> None:
    """Write events until the collector stops, or the reader goes or is too slow."""
    collector, ending = request.app[COLLECTOR], request.app[STREAMS].ending
    seen = collector.events.newest if after is None else after
    await _write(request, response, f"retry: {RETRY_MS}\n\n")
    while not (ending.is_set() or _gone(request)):
        found = _past(collector.events, seen, AT_ONCE, collector.clock.unix())
        if found:
            await _write(request, response, "".join(map(_told, found)))
            seen = found[-1]["id"]
        elif not await _news(request, seen, HEARTBEAT_S):
            await _write(request, response, ": still here\n\n")


async def _write(request: web.Request, response: web.StreamResponse, text: str) -> None:
    """Write, and wait until the reader has taken most of it; or cut it off."""
    try:
        async with asyncio.timeout(SLOW_S):
            await response.write(text.encode())
    except TimeoutError as exc:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionAbortedError("a reader too slow") from exc


async def _news(request: web.Request, seen: int, wait_s: float) -> bool:
    """Return once there is an event; False: none in time, or it is over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_s
    ending = request.app[STREAMS].ending
    waits = [
        loop.create_task(request.app[COLLECTOR].events.wait(seen)),
        loop.create_task(ending.wait()),
    ]
    try:
        while not any(wait.done() for wait in waits) and not _gone(request):
            left_s = until - loop.time()
            if left_s <= 0:
                break
            await asyncio.wait(
                waits,
                timeout=min(left_s, _LOOK_S),
                return_when=asyncio.FIRST_COMPLETED,
            )
        return waits[0].done()
    finally:
        for wait in waits:
            wait.cancel()


def _gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def _after(request: web.Request) -> int | None:
    """Return the number of the last event seen; None if none is given."""
    text = request.headers.get(LAST_EVENT_ID)
    if text is None:
        given = one(request, "after")
        return None if given is None else whole(request, "after", 0, 0, MOST_IDENT)
    if not (text.isascii() and text.isdigit() and int(text[:20]) <= MOST_IDENT):
        raise Problem(
            400, f"{LAST_EVENT_ID}: expected an event's number, got {text[:40]!r}"
        )
    return int(text)


def _wants_json(request: web.Request) -> bool:
    accepted = request.headers.get(hdrs.ACCEPT, "")
    return "application/json" in accepted and "text/event-stream" not in accepted


def _past(log: Events, seen: int, limit: int, unix_now: float) -> list[dict[str, Any]]:
    """Return the events past a number, first of all the gap if there is one."""
    kept_from = log.oldest - 1
    if seen > log.newest:
        told = f"there is no event {seen} yet: the numbers began anew"
    elif seen < kept_from:
        told = f"{kept_from - seen} events are no longer kept"
    else:
        return [_json(event) for event in log.after(seen, limit)]
    gap = {
        "id": kept_from,
        "time": unix_now,
        "kind": GAP,
        "node": None,
        "node_id": None,
        "reason": told,
        "by": None,
        "details": {},
    }
    return [gap, *(_json(event) for event in log.after(kept_from, limit - 1))]


def _json(event: Event) -> dict[str, Any]:
    return {
        "id": event.ident,
        "time": round(event.unix_s, 3),
        "kind": str(event.kind),
        "node": event.node,
        "node_id": event.node_id,
        "reason": event.reason,
        "by": event.by,
        "details": event.details,
    }


def _told(event: dict[str, Any]) -> str:
    return f"id: {event['id']}\nevent: {event['kind']}\ndata: {json.dumps(event)}\n\n"
