"""What people want of a node: drained or put back, deleted, holding data.

Each answers the node as it is then. What is asked for twice is done once.
"""

from typing import Any

from aiohttp import web

from trimtab.wire import Stream, WireError, encode

from ..core import COLLECTOR, Collector
from ..states import Admin
from .bearer import by
from .body import read_json
from .node_json import whole
from .nodes import find
from .parameters import one, only
from .problems import Problem

LONGEST_DRAIN_S = 30 * 86_400
REASON_CHARS = 200
NO_REASON = "no reason given"


async def drain(request: web.Request) -> web.Response:
    """Take a node out: no new tasks, and at the deadline no sticky ones."""
    collector = request.app[COLLECTOR]
    only(request)
    body = await _object(request, "deadline_s", "reason")
    deadline_s, reason = _deadline_s(body), _reason(body.get("reason"))
    row = find(request)
    admin = Admin(int(collector.fleet.admin[row]))
    if admin is Admin.TOMBSTONED:
        name = collector.fleet.nodes[row].name
        raise Problem(
            409, f"{name} is deleted: DELETE its drain to put it back", "deleted"
        )
    held = collector.fleet.drains.get(row)
    again = held is not None and deadline_s is None and reason in (None, held.reason)
    if not (admin is Admin.DRAINED or (admin is Admin.DRAINING and again)):
        collector.drain(
            row,
            until_unix_s=None
            if deadline_s is None
            else collector.clock.unix() + deadline_s,
            reason=reason or (NO_REASON if held is None else held.reason),
            by=by(request),
        )
    return _now(collector, row)


async def undrain(request: web.Request) -> web.Response:
    """Put a node back, a deleted one too."""
    collector = request.app[COLLECTOR]
    only(request)
    row = find(request)
    collector.undrain(row, by=by(request))
    return _now(collector, row)


async def delete(request: web.Request) -> web.Response:
    """Delete a node: its agent is refused until somebody puts it back."""
    collector = request.app[COLLECTOR]
    only(request, "reason")
    reason = _reason(one(request, "reason")) or NO_REASON
    row = find(request)
    collector.delete(row, reason=reason, by=by(request))
    return _now(collector, row)


async def holds(request: web.Request) -> web.Response:
    """Take somebody's word for the data that a node holds now."""
    collector = request.app[COLLECTOR]
    only(request)
    body = await _object(request, "holds")
    items = body.get("holds")
    if not isinstance(items, list) or not all(isinstance(i, str) for i in items):
        raise Problem(400, 'expected {"holds": […]}, an array of texts')
    row = find(request)
    held = tuple(dict.fromkeys(items))
    _check(collector, row, held)
    collector.hold(row, held, by=by(request))
    return _now(collector, row)


def _check(collector: Collector, row: int, held: tuple[str, ...]) -> None:
    """Refuse what the node itself could not say in a hello."""
    hello = collector.fleet.nodes[row].hello
    inventory = hello.inventory._replace(holds=held)
    try:
        list(Stream().feed(encode(hello._replace(inventory=inventory))))
    except (WireError, UnicodeEncodeError) as exc:
        text = str(exc).removeprefix("hello.").removeprefix("inventory.")
        raise Problem(400, text) from exc


async def _object(request: web.Request, *known: str) -> dict[str, Any]:
    body = await read_json(request)
    if not isinstance(body, dict):
        raise Problem(400, f"expected an object with {', '.join(known)}")
    unknown = sorted(set(body) - set(known))
    if unknown:
        raise Problem(
            400, f"unknown field {unknown[0][:40]!r}; there are: {', '.join(known)}"
        )
    return body


def _deadline_s(body: dict[str, Any]) -> float | None:
    value = body.get("deadline_s")
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= LONGEST_DRAIN_S:
        raise Problem(400, f"deadline_s: expected seconds, 0 to {LONGEST_DRAIN_S}")
    return float(value)


def _reason(text: object) -> str | None:
    if text is None:
        return None
    if not isinstance(text, str) or len(text) > REASON_CHARS or not text.isprintable():
        raise Problem(
            400, f"reason: expected printable text of at most {REASON_CHARS} characters"
        )
    return text


def _now(collector: Collector, row: int) -> web.Response:
    return web.json_response(whole(collector, row))
