"""GET /openapi.json: every route, and the shape of every answer.

OpenAPI 3.1, whose schemas are JSON Schema 2020-12; the tests check real
answers against them.
"""

from typing import Any

from aiohttp import web

from trimtab.wire import VERSION

from ..health import DIMENSIONS
from . import listing
from .events import LONGEST_WAIT_S, MOST, MOST_IDENT
from .parameters import only
from .schemas import REASON, SCHEMAS, TEXT, Schema, made, ref


def _json(schema: Schema) -> Schema:
    return {"content": {"application/json": {"schema": schema}}}


def _answers(good: Schema, *problems: int, open_to_all: bool = False) -> Schema:
    told = (400, *problems) if open_to_all else (400, 401, 429, *problems)
    bad = {
        str(status): {
            "description": "why not",
            "content": {"application/problem+json": {"schema": ref("Problem")}},
        }
        for status in sorted({403, *told})
    }
    return {"200": {"description": "the answer", **good}} | bad


def _operation(
    summary: str,
    scope: str | None,
    good: Schema,
    *problems: int,
    body: Schema | None = None,
    parameters: list[Schema] | None = None,
    optional: bool = False,
) -> Schema:
    """Return an operation; `optional`: its body may be left out."""
    made: Schema = {
        "summary": summary,
        "security": [{}] if scope is None else [{"token": [scope]}, {}],
    }
    if parameters:
        made["parameters"] = parameters
    if body is not None:
        made["requestBody"] = {"required": not optional, **body}
        problems = (*problems, 408, 413, 415)
    made["responses"] = _answers(good, *problems, open_to_all=scope is None)
    return made


def _query(name: str, text: str, schema: Schema | None = None) -> Schema:
    return {
        "name": name,
        "in": "query",
        "description": text,
        "schema": schema or {"type": "number", "minimum": 0, "exclusiveMaximum": 1e11},
    }


def _words(name: str, known: list[str], text: str) -> Schema:
    return {
        **_query(name, text, {"type": "array", "items": {"enum": known}}),
        "style": "form",
        "explode": False,
    }


def _repeated(name: str, text: str, item: Schema) -> Schema:
    return _query(name, text, {"type": "array", "items": item})


def _path(name: str, text: str) -> Schema:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": text,
        "schema": {"type": "string", "minLength": 1},
    }


_NODE_PATH = _path("node", "a node's name or id")
_NODE = _json(ref("Node"))
_MSGPACK: Schema = {"content": {"application/msgpack": {}}}
_LIST = [
    _words("state", list(listing.STATES), "by commas or repeated: any of them"),
    _repeated("site", "repeated: any of them", TEXT),
    _repeated(
        "label",
        "KEY=VALUE, or KEY for any value; repeated: all of them",
        {"type": "string", "pattern": "^[^=]"},
    ),
    _words("limiting", list(DIMENSIONS), "by commas or repeated: any of them"),
    _words(
        "admin",
        list(listing.ADMINS),
        "by commas or repeated: any of them; default all but tombstoned",
    ),
    _query(
        "sort",
        "ascending, or with - before it descending; null comes last; default name",
        {"enum": [*listing.SORTS, *(f"-{by}" for by in listing.SORTS)]},
    ),
    _query(
        "limit",
        f"nodes on a page; default {listing.DEFAULT_LIMIT}",
        {"type": "integer", "minimum": 1, "maximum": listing.MOST},
    ),
    _query("cursor", "the `next` of the page before, of the same sort", TEXT),
    {
        "name": "If-None-Match",
        "in": "header",
        "description": "the ETag of an answer that is known",
        "schema": TEXT,
    },
]
_EVENTS = [
    _query(
        "after",
        "the number of the last event seen; default: new ones as a stream, the "
        "newest as a page",
        {"type": "integer", "minimum": 0, "maximum": MOST_IDENT},
    ),
    _query(
        "limit",
        "events on a page; asks for JSON",
        {"type": "integer", "minimum": 1, "maximum": MOST},
    ),
    _query(
        "wait",
        "seconds to wait for a first event; asks for JSON",
        {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT_S},
    ),
    {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "the same as `after`, and goes before it",
        "schema": {"type": "integer", "minimum": 0, "maximum": MOST_IDENT},
    },
]


def _with_not_modified(operation: Schema) -> Schema:
    headers = {"ETag": {"description": "of all but ages", "schema": TEXT}}
    answers = operation["responses"]
    answers["200"]["headers"] = headers
    answers["304"] = {"description": "nothing but ages has changed"}
    return operation


PATHS: Schema = {
    "/v1/nodes": {
        "get": _with_not_modified(
            _operation(
                "the fleet, page by page",
                "read",
                _json(ref("NodeList")),
                parameters=_LIST,
            )
        )
    },
    "/v1/nodes/{node}": {
        "parameters": [_NODE_PATH],
        "get": _operation("one node, with all that is known of it", "read", _NODE, 404),
        "delete": _operation(
            "delete it: its agent is refused until it is put back",
            "admin",
            _NODE,
            404,
            parameters=[_query("reason", "why", REASON)],
        ),
    },
    "/v1/nodes/{node}/history": {
        "parameters": [_NODE_PATH],
        "get": _operation(
            "its samples, merged into steps; empty steps left out",
            "read",
            _json(ref("History")),
            404,
            503,
            parameters=[
                _query("since", "Unix seconds; default an hour before until"),
                _query("until", "Unix seconds, not included; default now"),
                _query("step", "seconds, a multiple of 60; default 60"),
            ],
        ),
    },
    "/v1/nodes/{node}/forecast": {
        "parameters": [_NODE_PATH],
        "get": _operation(
            "the headroom expected, with its band", "read", _json(ref("Forecast")), 404
        ),
    },
    "/v1/nodes/{node}/drain": {
        "parameters": [_NODE_PATH],
        "put": _operation(
            "take it out: no new tasks, at the deadline no sticky ones either",
            "admin",
            _NODE,
            404,
            409,
            body=_json(ref("Drain")),
            optional=True,
        ),
        "delete": _operation(
            "put it back, also if it was deleted", "admin", _NODE, 404
        ),
    },
    "/v1/nodes/{node}/holds": {
        "parameters": [_NODE_PATH],
        "put": _operation(
            "the data that it holds now; the later one of this and its hello counts",
            "route",
            _NODE,
            404,
            body=_json(ref("Holds")),
        ),
    },
    "/v1/route": {
        "post": _operation(
            "where a task should go, or each of several; an answer is a lease",
            "route",
            _json({"anyOf": [ref("Decision"), ref("Decisions")]}),
            409,
            body=_json({"anyOf": [ref("Task"), ref("Tasks")]}),
            optional=True,
        )
    },
    "/v1/outcomes": {
        "post": _operation(
            "how it went: closes leases",
            "route",
            _json(ref("Closed")),
            body=_json(ref("Outcomes")),
        )
    },
    "/v1/decisions/{decision}": {
        "parameters": [_path("decision", "as the answer to a task has it")],
        "get": _operation(
            "why a task went where it went", "read", _json(ref("Decision")), 404, 503
        ),
    },
    "/v1/events": {
        "get": _operation(
            "what happens in the fleet: as it happens, or a page of it",
            "read",
            {
                "content": {
                    "text/event-stream": {},
                    "application/json": {"schema": ref("EventPage")},
                }
            },
            503,
            parameters=_EVENTS,
        )
    },
    "/v1/frames": {
        "post": _operation(
            "hello and frames of one agent, as docs/wire.md says",
            None,
            _MSGPACK,
            401,
            429,
            503,
            body=_MSGPACK,
        )
    },
    "/metrics": {
        "get": _operation("Prometheus text", "read", {"content": {"text/plain": {}}})
    },
    "/livez": {
        "get": _operation(
            "is the process alive", None, _json(made({"live": {"const": True}}))
        )
    },
    "/readyz": {
        "get": _operation("is it ready to be asked", None, _json(ref("Ready")), 503)
    },
    "/openapi.json": {
        "get": _operation("this document", None, _json({"type": "object"}))
    },
}

DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {
        "title": "trimtab collector",
        "version": VERSION,
        "description": "Which nodes have room, and where a task should go and why. "
        "A token's scope is what an operation's security names, or admin; "
        "a collector without tokens needs none.",
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    },
    "paths": PATHS,
    "components": {
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        "schemas": SCHEMAS,
    },
}


async def openapi(request: web.Request) -> web.Response:
    """Answer the document."""
    only(request)
    return web.json_response(DOCUMENT)
