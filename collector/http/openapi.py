"""GET /openapi.json: every route, and the shape of every answer.

OpenAPI 3.1, whose schemas are JSON Schema 2020-12; the tests check real
answers against them.
"""

from typing import Any

from aiohttp import web

from trimtab.balancer import Admin as AdminName
from trimtab.balancer import State as StateName
from trimtab.wire import VERSION, GpuState

from ..health import DIMENSIONS
from ..readings import READINGS
from ..rollup import SERIES

Schema = dict[str, Any]


def _object(required: Schema, optional: Schema | None = None) -> Schema:
    return {
        "type": "object",
        "properties": required | (optional or {}),
        "required": list(required),
        "additionalProperties": False,
    }


def _maybe(kind: str, **limits: object) -> Schema:
    return {"type": [kind, "null"], **limits}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


SIGNED = ("clock.offset_ms",)
AT_LEAST_0: Schema = {"minimum": 0}
SHARE: Schema = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}

_NODE: Schema = {
    "node": {"type": "string", "description": "name, unique in the fleet"},
    "id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
    "clone_of": _maybe("string"),
    "state": {"enum": [str(state) for state in StateName]},
    "admin": {"enum": [str(admin) for admin in AdminName]},
    "score": {**SHARE, "description": "least headroom read; null: nothing read"},
    "confidence": SHARE,
    "limiting": {"enum": [*DIMENSIONS, None]},
    "headroom": _object(dict.fromkeys(DIMENSIONS, SHARE)),
    "age_ms": _maybe("integer", minimum=0),
    "signals": _object(
        {
            name: {"type": ["number", "null"], **({} if name in SIGNED else AT_LEAST_0)}
            for name in READINGS
        }
    ),
    "address": _maybe("string"),
    "site": _maybe("string"),
    "zone": _maybe("string"),
    "operator": _maybe("string"),
    "labels": {"type": "object", "additionalProperties": TEXT},
}
_LINK = _object(
    {
        "to": TEXT,
        "method": _maybe("string"),
        "rtt_us": _maybe("integer", minimum=0),
        "rtt_min_us": _maybe("integer", minimum=0),
        "rtt_p95_us": _maybe("integer", minimum=0),
        "jitter_us": _maybe("integer", minimum=0),
        "loss": SHARE,
        "retransmits": _maybe("integer", minimum=0),
    }
)
_HOLE = _object(
    {
        "signal": TEXT,
        "state": {"enum": ["unsupported", "error", "stale"]},
        "age_ms": _maybe("integer", minimum=0),
        "to": _maybe("string"),
    }
)
_MIB = _maybe("integer", minimum=0)
_MIG = _object({"instance": COUNT, "slices": COUNT, "free_mib": _MIB, "used_mib": _MIB})
_GPU = _object(
    {
        "device": COUNT,
        "uuid": _maybe("string"),
        "name": _maybe("string"),
        "memory_mib": _MIB,
        "health": {"enum": ["ok", "lowered", "zero", None]},
        "reasons": TEXTS,
        "xid": _maybe("integer", minimum=0),
        "free_mib": _MIB,
        "used_mib": _MIB,
        "reserved_mib": _MIB,
        "busy": SHARE,
        "effective": {**SHARE, "description": "an upper bound of useful work"},
        "method": {"enum": ["gpm", "power", "busy_only", None]},
        "pseudo_high": _maybe("boolean"),
        "clock": SHARE,
        "throttle": _maybe("integer", minimum=0),
        "power_w": _maybe("number", minimum=0),
        "temperature_c": _maybe("integer"),
        "mig": {"type": "array", "items": _MIG},
    }
)
_GPUS = _object(
    {
        "state": {"enum": [state.name.lower() for state in GpuState]},
        "age_ms": _maybe("integer", minimum=0),
        "stranding": {**SHARE, "description": "free memory no single task can use"},
        "mig_stranding": SHARE,
        "restarts": COUNT,
        "devices": {"type": "array", "items": _GPU},
    }
)
_DETAILS: Schema = {
    "state_for_s": NUMBER,
    "interval_ms": COUNT,
    "stale_after_ms": COUNT,
    "agent_version": TEXT,
    "first_seen": NUMBER,
    "last_seen": NUMBER,
    "gaps": COUNT,
    "links": {"type": "array", "items": _LINK},
    "holes": {"type": "array", "items": _HOLE},
    "gpus": {"anyOf": [_GPUS, {"type": "null"}]},
    "mode": {"enum": ["standard", "edge"]},
    "cpu_quota": _maybe("number", minimum=0),
    "memory_limit_mib": _maybe("integer", minimum=0),
    "cpus": _maybe("integer", minimum=0),
    "memory_mib": _maybe("integer", minimum=0),
    "groups": TEXTS,
    "holds": TEXTS,
    "resources": {"type": "object", "additionalProperties": COUNT},
    "price": _maybe("number"),
    "slots": _maybe("integer", minimum=0),
    "speed": _maybe("number"),
}
_COLUMN: Schema = {"type": "array", "items": {"type": ["number", "null"]}}
_HISTORY = _object(
    {
        "node": TEXT,
        "step_s": COUNT,
        "time": {"type": "array", "items": COUNT, "description": "Unix seconds"},
        "samples": {"type": "array", "items": COUNT},
        "series": _object(
            dict.fromkeys(
                SERIES, _object({"mean": _COLUMN, "min": _COLUMN, "max": _COLUMN})
            )
        ),
    }
)
_NEED: Schema = {"type": "number", "minimum": 0}
TASK: Schema = {
    "type": "object",
    "properties": {
        "class": {"type": "string"},
        "latency_budget_ms": _NEED,
        "from": TEXT,
        "cpu": _NEED,
        "memory_mib": _NEED,
        "gpus": COUNT,
        "gpu_memory_mib": _NEED,
        "data": TEXTS,
        "data_mib": _NEED,
        "egress_mib": _NEED,
        "duration_s": _NEED,
        "labels": {"type": "object", "additionalProperties": TEXT},
        "sticky": TEXT,
        "avoid": TEXTS,
        "failover_from": TEXT,
    },
    "additionalProperties": False,
}
_PROBLEM: Schema = {
    "type": "object",
    "properties": {
        "type": TEXT,
        "title": TEXT,
        "status": {"type": "integer"},
        "detail": TEXT,
    },
    "required": ["type", "title", "status", "detail"],
}
_DECISION = _object(
    {
        "decision": {"type": "string", "pattern": "^[0-9a-f]+$"},
        "node": TEXT,
        "address": _maybe("string"),
        "score": SHARE,
        "expires_ms": COUNT,
        "alternatives": {
            "type": "array",
            "items": {"type": "object", "required": ["node", "address"]},
        },
        "why": {"type": "object", "required": ["mode", "candidates"]},
    }
)
_OUTCOME = _object(
    {
        "decision": TEXT,
        "outcome": {"enum": ["ok", "error", "timeout"]},
    },
    {
        "latency_ms": _NEED,
        "service_ms": _NEED,
        "node_inflight": COUNT,
        "transfer_mib": _NEED,
        "transfer_ms": _NEED,
    },
)


def _json(schema: Schema) -> Schema:
    return {"content": {"application/json": {"schema": schema}}}


def _answers(good: Schema, *problems: int) -> Schema:
    bad = {
        str(status): {
            "description": "why not",
            "content": {"application/problem+json": {"schema": _ref("Problem")}},
        }
        for status in (401, 403, *problems)
    }
    return {"200": {"description": "the answer", **good}} | bad


def _query(name: str, text: str) -> Schema:
    return {
        "name": name,
        "in": "query",
        "description": text,
        "schema": {"type": "number", "minimum": 0},
    }


_NODE_PATH: Schema = {
    "name": "node",
    "in": "path",
    "required": True,
    "description": "a node's name or id",
    "schema": TEXT,
}
_OPEN: list[Schema] = [{}]

DOCUMENT: Schema = {
    "openapi": "3.1.0",
    "info": {
        "title": "trimtab collector",
        "version": VERSION,
        "description": "Which nodes have room, and where a task should go and why.",
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    },
    "security": [{"token": []}, {}],
    "paths": {
        "/v1/nodes": {
            "get": {
                "summary": "every node",
                "responses": _answers(_json(_ref("NodeList")), 400),
            }
        },
        "/v1/nodes/{node}": {
            "parameters": [_NODE_PATH],
            "get": {
                "summary": "one node, with all that is known of it",
                "responses": _answers(_json(_ref("Node")), 400, 404),
            },
        },
        "/v1/nodes/{node}/history": {
            "parameters": [_NODE_PATH],
            "get": {
                "summary": "its minutes, merged into steps; empty steps left out",
                "parameters": [
                    _query("since", "Unix seconds; default an hour before until"),
                    _query("until", "Unix seconds, not included; default now"),
                    _query("step", "seconds, a multiple of 60; default 60"),
                ],
                "responses": _answers(_json(_ref("History")), 400, 404),
            },
        },
        "/v1/route": {
            "post": {
                "summary": "where a task should go; the answer is a lease",
                "requestBody": {"required": True, **_json(_ref("Task"))},
                "responses": _answers(_json(_ref("Decision")), 400, 409, 413, 415),
            }
        },
        "/v1/outcomes": {
            "post": {
                "summary": "how it went: closes leases",
                "requestBody": {
                    "required": True,
                    **_json(
                        {
                            "oneOf": [
                                _ref("Outcome"),
                                {"type": "array", "items": _ref("Outcome")},
                            ]
                        }
                    ),
                },
                "responses": _answers(
                    _json(_object({"closed": COUNT, "unknown": TEXTS})), 400, 413, 415
                ),
            }
        },
        "/v1/decisions/{decision}": {
            "parameters": [
                {"name": "decision", "in": "path", "required": True, "schema": TEXT}
            ],
            "get": {
                "summary": "why a task went where it went",
                "responses": _answers(_json(_ref("Decision")), 404),
            },
        },
        "/v1/frames": {
            "post": {
                "summary": "hello and frames of one agent, as docs/wire.md says",
                "security": _OPEN,
                "requestBody": {
                    "required": True,
                    "content": {"application/msgpack": {}},
                },
                "responses": _answers(
                    {"content": {"application/msgpack": {}}}, 400, 413, 415
                ),
            }
        },
        "/metrics": {
            "get": {
                "summary": "Prometheus text",
                "responses": _answers({"content": {"text/plain": {}}}),
            }
        },
        "/livez": {
            "get": {
                "summary": "is the process alive",
                "security": _OPEN,
                "responses": {
                    "200": {
                        "description": "yes",
                        **_json(_object({"live": {"const": True}})),
                    }
                },
            }
        },
        "/readyz": {
            "get": {
                "summary": "is it ready to be asked",
                "security": _OPEN,
                "responses": _answers(
                    _json(
                        _object(
                            {"ready": {"const": True}, "nodes": COUNT, "store": TEXT}
                        )
                    ),
                    503,
                ),
            }
        },
        "/openapi.json": {
            "get": {
                "summary": "this document",
                "security": _OPEN,
                "responses": {
                    "200": {"description": "OpenAPI 3.1", **_json({"type": "object"})}
                },
            }
        },
    },
    "components": {
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        "schemas": {
            "NodeSummary": _object(_NODE),
            "Node": _object(_NODE | _DETAILS),
            "NodeList": _object(
                {
                    "nodes": {"type": "array", "items": _ref("NodeSummary")},
                    "next": _maybe("string"),
                }
            ),
            "History": _HISTORY,
            "Task": TASK,
            "Decision": _DECISION,
            "Outcome": _OUTCOME,
            "Problem": _PROBLEM,
        },
    },
}


async def openapi(request: web.Request) -> web.Response:
    """Answer the document."""
    del request
    return web.json_response(DOCUMENT)
